"""``python -m geotfr_cli``, and the console script ``geotfr``."""

from typing import NoReturn

from geotfr_cli.signals import catch_signals, end_by_signal


def run() -> NoReturn:
    """Run the command line, which a signal can end while it is still being loaded."""
    catch_signals()
    try:
        from geotfr_cli.main import main
    except BaseException:
        end_by_signal()
        raise
    main()


if __name__ == "__main__":
    run()
