"""The demo: DP-SGD on real handwritten digits, with the privacy of groups accounted for on the way.

Run it from the top of the checkout with ``make demo``, or with ``python -m demo`` where the package and its
``demo`` extra are installed. Results go to ``demo/output/``.
"""
