"""Certificates for the tests of the checker: made once for each run, and with claims that are sharp."""


def made_once(curves, delta):
    """Return a function that certifies a curve, given by its name, the first time it is asked for."""
    made = {}

    def certificate(name):
        if name not in made:
            made[name] = curves[name].certify(delta=delta)
        return made[name]

    return certificate


def claims_are_sharp(curve, certificate, delta):
    """Assert that both claims are proven and true, and that slightly stronger ones are not proven."""
    verified, lines = certificate.verify()
    assert verified, lines
    least, most = (float(end) for end in curve.bounds(delta=delta))
    upper, lower = certificate.claims
    assert lower["epsilon"] <= most
    assert least <= upper["epsilon"] < most * 1.002 + 1e-4
    for claim in (
        upper | {"at_most": delta * 0.99},
        {"epsilon": lower["epsilon"] * 0.99, "at_most": delta},
        {"epsilon": lower["epsilon"], "at_least": delta * 1.02},
    ):
        assert not certificate.with_claims([claim]).verify()[0], claim
