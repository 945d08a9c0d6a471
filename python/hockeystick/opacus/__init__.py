"""At home in Opacus and PyTorch training loops. Importing this imports neither."""

from hockeystick.opacus.loaders import LoaderScheme, check_loader

__all__ = ["LoaderScheme", "check_loader"]
