"""Random configurations put to the peers: what each of them says, and what it says it bounds."""

from benches.compare.accounting_peers import binomial_weights

CELLS = 20_000
"""Cells that a standard deviation of the composed loss is cut into, at most."""

SMALLEST_CELL, LARGEST_CELL = 1e-4, 5e-3


def cell(run_spread):
    """Width of the cells of a privacy loss distribution."""
    return min(max(run_spread / CELLS, SMALLEST_CELL), LARGEST_CELL)


def pld(configuration, run_spread, pessimistic):
    """dp-accounting's privacy loss distribution, rounded up or down as a whole."""
    from dp_accounting.pld import privacy_loss_distribution as distributions

    settings = {"pessimistic_estimate": pessimistic, "value_discretization_interval": cell(run_spread)}
    noise, rate, kind = configuration.noise, configuration.sample_rate, configuration.kind
    if kind == "laplace":
        one = distributions.from_laplace_mechanism(
            noise, sampling_prob=rate, use_connect_dots=False, **settings
        )
    elif kind == "randomised response":
        one = distributions.from_randomized_response(2.0 * (1.0 - noise), 2, **settings)
    else:
        relation = distributions.NeighborRel
        one = distributions.from_gaussian_mechanism(
            noise,
            sampling_prob=rate,
            use_connect_dots=False,
            neighboring_relation=relation.REPLACE_ONE if kind == "replace" else relation.ADD_OR_REMOVE_ONE,
            **settings,
        )
    return composed(one, configuration.steps)


def composed(one, steps):
    """`steps` steps alike."""
    return one.self_compose(steps, tail_mass_truncation=1e-15) if steps > 1 else one


def dp_accounting_rdp(configuration):
    """dp-accounting's Rényi accountant with its own orders: an upper bound on epsilon."""
    from dp_accounting import dp_event, rdp

    accountant = rdp.RdpAccountant()
    noise = dp_event.GaussianDpEvent(configuration.noise)
    accountant.compose(dp_event.PoissonSampledDpEvent(configuration.sample_rate, noise), configuration.steps)
    return float(accountant.get_epsilon(configuration.delta))


def opacus_rdp(configuration):
    """Opacus's Rényi accountant with its own orders: an upper bound on epsilon."""
    from opacus.accountants import RDPAccountant

    accountant = RDPAccountant()
    accountant.history = [(configuration.noise, configuration.sample_rate, configuration.steps)]
    return float(accountant.get_epsilon(configuration.delta))


def opacus_prv(configuration, error=0.01):
    """Both ends that Opacus's PRV accountant computes; it reports the upper one."""
    from opacus.accountants import PRVAccountant

    accountant = PRVAccountant()
    accountant.history = [(configuration.noise, configuration.sample_rate, configuration.steps)]
    delta = configuration.delta
    law = accountant._get_dprv(eps_error=error, delta_error=delta / 1000)
    lower, _, upper = law.compute_epsilon(delta, delta / 1000, error)
    return float(lower), float(upper)


def prv_accountant(configuration, error=0.01):
    """Both ends of the interval that prv-accountant reports; None where it finds that integrals failed."""
    import prv_accountant as peer

    prv = peer.PoissonSubsampledGaussianMechanism(
        sampling_probability=configuration.sample_rate, noise_multiplier=configuration.noise
    )
    try:
        accountant = peer.PRVAccountant(
            prvs=[prv],
            max_self_compositions=[configuration.steps],
            eps_error=error,
            delta_error=configuration.delta / 1000,
        )
    except RuntimeError as refusal:
        if "Discrete mean differs" not in str(refusal):
            raise
        return None
    lower, _, upper = accountant.compute_epsilon(
        delta=configuration.delta, num_self_compositions=[configuration.steps]
    )
    return float(lower), float(upper)


def shifts_and_weights(rate, group_size):
    """Law of the number of members of a group in a batch."""
    return [float(count) for count in range(group_size + 1)], binomial_weights(group_size, rate)


def mixture_loss(noise, rate, group_size):
    """dp-accounting's privacy loss of the removal of a group."""
    from dp_accounting.pld import privacy_loss_mechanism as losses

    law = shifts_and_weights(rate, group_size)
    return losses.MixtureGaussianPrivacyLoss(noise, *law, adjacency_type=losses.AdjacencyType.REMOVE)


def mixture(noise, rate, group_size):
    """dp-accounting's pessimistic distribution of the loss of the removal of a group, one step."""
    from dp_accounting.pld import privacy_loss_distribution as distributions

    law = shifts_and_weights(rate, group_size)
    return distributions.from_mixture_gaussian_mechanism(
        noise, *law, use_connect_dots=False, value_discretization_interval=1e-3
    )._pmf_remove


def group_pld(configuration):
    """dp-accounting's pessimistic distribution of the loss of a group, its dots connected."""
    from dp_accounting.pld import privacy_loss_distribution as distributions

    law = shifts_and_weights(configuration.sample_rate, configuration.group_size)
    one = distributions.from_mixture_gaussian_mechanism(
        configuration.noise, *law, value_discretization_interval=LARGEST_CELL
    )
    return composed(one, configuration.steps)


def removal_advantage(noise, rate, group_size):
    """Total variation distance between the noise and the mixture, by SciPy's quadrature."""
    from scipy.integrate import quad
    from scipy.stats import norm

    law = list(zip(*shifts_and_weights(rate, group_size), strict=True))

    def gain(x):
        mixed = sum(weight * norm.pdf(x, shift, noise) for shift, weight in law)
        return max(mixed - norm.pdf(x, 0.0, noise), 0.0)

    reach = 12.0 * noise
    return quad(gain, -reach, reach + group_size, limit=500, epsabs=1e-10)[0]


def divergences(configuration, orders):
    """Rényi divergences of one step by dp-accounting and by Opacus."""
    from dp_accounting.rdp import rdp_privacy_accountant
    from opacus.accountants.analysis import rdp

    rate, noise = configuration.sample_rate, configuration.noise
    yield rdp_privacy_accountant._compute_rdp_poisson_subsampled_gaussian(rate, noise, orders)
    yield rdp.compute_rdp(q=rate, noise_multiplier=noise, steps=1, orders=orders)


def riskcal_beta(configuration, run_spread, alphas):
    """riskcal's trade-off function of dp-accounting's pessimistic estimate."""
    from riskcal.analysis import get_beta_from_pld

    return get_beta_from_pld(pld(configuration, run_spread, True), alpha=alphas)


def riskcal_advantage(configuration, run_spread):
    """riskcal's advantage of dp-accounting's pessimistic estimate."""
    from riskcal.analysis import get_advantage_from_pld

    return get_advantage_from_pld(pld(configuration, run_spread, True))
