"""The sampling scheme of a loader, whichever library it comes from."""

from __future__ import annotations

from hockeystick._loaders.jax_selections import is_selection, sampling_of_selection
from hockeystick._loaders.torch_loaders import scheme_of
from hockeystick._vocabulary.sampling import Sampling, Shuffle
from hockeystick.errors import SamplingMismatchError


def sampling_of(loader: object, *, dataset_size: int | None = None) -> Sampling | Shuffle:
    """Return the sampling scheme of a data loader, to pass on as `sampling`.

    Parameters
    ----------
    loader : torch.utils.data.DataLoader or batch selection of JAX Privacy
        The loader that training iterates over: PyTorch's, Opacus's after `make_private`, those of Hugging
        Face's Accelerate and Trainer after `prepare`; or a strategy of ``jax_privacy.batch_selection``. Where
        that selects users, the scheme is about users.
    dataset_size : int, optional
        Number of records, for strategies of JAX Privacy whose scheme depends on it.

    Returns
    -------
    Poisson, WithoutReplacement, FullBatch, RandomAllocation, FixedBins or Shuffle
        What the loader draws.

    Raises
    ------
    SamplingMismatchError
        If no guarantee is known for what the loader draws; the message says what to do.
    TypeError
        If `loader` is something else, or `dataset_size` is needed and not given.

    See Also
    --------
    hockeystick.opacus.check_loader : compares a loader with what an accountant assumes.

    Examples
    --------
    >>> import hockeystick as hs
    >>> from torch.utils.data import DataLoader  # doctest: +SKIP
    >>> hs.sampling_of(DataLoader(range(1000), batch_size=100, shuffle=True))  # doctest: +SKIP
    Shuffle(batch_size=100, dataset_size=1000)
    """
    if is_selection(loader):
        return sampling_of_selection(loader, dataset_size)
    scheme = scheme_of(loader)
    if scheme.sampling is not None:
        return scheme.sampling
    if scheme.shuffle is not None:
        return scheme.shuffle
    raise SamplingMismatchError(scheme.description)
