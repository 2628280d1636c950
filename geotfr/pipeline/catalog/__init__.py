"""The patch table and what is made with it: statistics, splits, collections."""
