"""``python -m tracer`` is ``trace``."""

from tracer.cli.main import main

if __name__ == "__main__":
    main()
