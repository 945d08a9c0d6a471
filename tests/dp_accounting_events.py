"""Events and accountants of dp-accounting by short names, for the tests of the adapter."""

import hockeystick as hs


def exact(relation="ADD_OR_REMOVE_ONE", **arguments):
    import dp_accounting

    return hs.dp_accounting.ExactAccountant(dp_accounting.NeighboringRelation[relation], **arguments)


def peer(relation="ADD_OR_REMOVE_ONE", kind="pld", **arguments):
    import dp_accounting

    accountants = {"pld": dp_accounting.pld.PLDAccountant, "rdp": dp_accounting.rdp.RdpAccountant}
    return accountants[kind](neighboring_relation=dp_accounting.NeighboringRelation[relation], **arguments)


def event(name, *arguments):
    from dp_accounting import dp_event

    return getattr(dp_event, f"{name}DpEvent")(*arguments)


def gaussian(noise):
    return event("Gaussian", noise)


def poisson(rate, inner):
    return event("PoissonSampled", rate, inner)


def fixed(batch, records, inner):
    return event("SampledWithoutReplacement", records, batch, inner)


def mixture(noise, shifts, weights):
    return event("MixtureOfGaussians", noise, shifts, weights)
