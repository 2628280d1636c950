"""``python -m geotfr_cli``: the same as the console script ``geotfr``."""

from geotfr_cli.main import main

if __name__ == "__main__":
    main()
