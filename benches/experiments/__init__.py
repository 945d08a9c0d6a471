"""The experiments of the papers on real data: ``python -m benches.experiments`` runs them all.

One module for each paper has a function ``main(output)``, which writes a file of numbers (JSON) and pictures
(PNG) into the folder `output`; ``make experiments`` writes them into docs/experiments/, whose page
docs/experiments.md quotes them. They stand beside the comparisons with other libraries because they are the
same kind of program: too long for tests, with results that are kept and quoted.

- `data`: the data sets as arrays of numbers. `models`, `convolutional`: models with the gradient of each
  example.
- `dpsgd`: DP-SGD with sums of clipped gradients that need no gradient of an example on its own.
- `results`, `pictures`: numbers as JSON and pictures in one style.
- `store`: trainings that are done, so that what was stopped goes on from there.
- `individual`, `rgp`, `group`, `shuffle`: one for each paper.
- `following`, `membership`: trainings of INDIVIDUAL. `rgp_training`: those of RGP. `shuffle_training`,
  `clipping`, `lenet`: those of SHUFFLE. `attacks`: audits and poisoning of GROUP.
"""

import os

# Matrices are small: the threads of the library that multiplies them wait for each other, which takes twenty
# times as long as one thread on a busy machine. The library reads this when NumPy is imported.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
