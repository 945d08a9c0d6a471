"""``python -m hockeystick_verify certificate.json``."""

import sys

from hockeystick_verify import main

sys.exit(main())
