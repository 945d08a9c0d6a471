//! Bounds from what an attack found: lower bounds on ε, to set beside what an accountant reports.

mod one_run;
mod proportions;

pub use one_run::one_run_epsilon_lower_bound;
pub use proportions::probability_at_least;

/// The largest epsilon that a search looks at; an attack that is right with probability 1 − 4e-44 has it.
const MAX_EPSILON: f64 = 100.0;
