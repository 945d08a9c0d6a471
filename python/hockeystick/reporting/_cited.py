"""The works that reports cite, in full."""

from __future__ import annotations

REFERENCES = {
    "GROUP": (
        "S. Mahloujifar, A. Sablayrolles, G. Cormode, S. Jha. Optimal Group Privacy for DP-SGD. "
        "Bulletin of the IEEE Computer Society Technical Committee on Data Engineering, 2023 or later. "
        "All volumes: http://sites.computer.org/debull/bull-issues.html"
    ),
    "RGP": (
        "Y. Jiang, X. Luo, Y. Yang, X. Xiao. Calibrating Noise for Group Privacy in Subsampled "
        "Mechanisms. Proceedings of the VLDB Endowment 18(2), 322–334, 2024. "
        "https://doi.org/10.14778/3705829.3705848"
    ),
    "PITFALLS": (
        "C. J. Lebeda, M. Regehr, G. Kamath, T. Steinke. Avoiding Pitfalls for Privacy Accounting"
        " of Subsampled Mechanisms under Composition. 2024. https://arxiv.org/abs/2405.20769"
    ),
    "SHUFFLE": (
        "M. van Dijk, P. H. Nguyen, T. N. Nguyen, L. M. Nguyen. Generalizing DP-SGD with "
        "Shuffling and Batch Clipping. 2022. https://arxiv.org/abs/2212.05796"
    ),
    "INDIVIDUAL": (
        "D. Yu, G. Kamath, J. Kulkarni, T.-Y. Liu, J. Yin, H. Zhang. Individual Privacy "
        "Accounting for Differentially Private Stochastic Gradient Descent. Transactions on "
        "Machine Learning Research, 2023. https://arxiv.org/abs/2206.02617"
    ),
    "Chua et al. 2024": (
        "L. Chua, B. Ghazi, C. Harrison, E. Leeman, P. Kamath, R. Kumar, P. Manurangsi, A. Sinha,"
        " C. Zhang. Balls-and-Bins Sampling for DP-SGD. 2024. https://arxiv.org/abs/2412.16802"
    ),
    "Feldman and Shenfeld 2025": (
        "V. Feldman, M. Shenfeld. Privacy Amplification by Random Allocation. 2025. "
        "https://arxiv.org/abs/2502.08202"
    ),
    "Ganesh 2025": (
        "A. Ganesh. Tighter Privacy Analysis for Truncated Poisson Sampling. 2025. "
        "https://arxiv.org/abs/2508.15089"
    ),
    "Ponomareva et al. 2023": (
        "N. Ponomareva, H. Hazimeh, A. Kurakin, Z. Xu, C. Denison, H. B. McMahan, S. Vassilvitskii, "
        "S. Chien, A. Thakurta. How to DP-fy ML: A Practical Guide to Machine Learning with Differential "
        "Privacy. Journal of Artificial Intelligence Research 77, 1113–1201, 2023. https://arxiv.org/abs/2303.00654"
    ),
}
"""The works that a report cites, by their short names, with a link each."""
