use super::*;
use crate::curve::one_step::gaussian_delta;

/// k replaced records of full batches are G_{kμ}, and so is the chain of k times G_μ (GROUP Theorem 5).
#[test]
fn a_chain_of_gaussian_curves_is_the_gaussian_curve_of_the_group() {
    let full = Sampling::FixedBatch {
        batch_size: 50,
        dataset_size: 50,
    };
    let step = Step {
        mechanism: Mechanism::Gaussian {
            noise_multiplier: 400.0,
        },
        sampling: full,
        group: Group::of(1),
    };
    let mu = 2.0 / 400.0 * 100f64.sqrt();
    for size in [2u64, 5, 20, 200] {
        let one = PairCurve::new(&[(step.clone(), 100)], Adjacency::Replace).unwrap();
        let mut chain = GroupChain::of_one(one, size);
        assert!((chain.variance - mu * mu).abs() < 1e-9);
        for epsilon in [0.0, 0.3, 1.5] {
            let exact = gaussian_delta(size as f64 * mu, epsilon);
            let (found, _) = chain.delta(epsilon).unwrap();
            assert!(found.log_upper >= exact.log_lower, "{size} {epsilon}");
            if exact.log_lower < SMALLEST_LOG_DELTA {
                continue; // Chernoff's bound stands for the curve there
            }
            assert!(
                found.log_upper <= exact.log_upper + 0.01,
                "{size} {epsilon}: {found:?} {exact:?}"
            );
            assert!(found.width() < 1e-6);
        }
    }
}

/// Each link of a chain of removed records has one record less, so that a fixed batch holds its record more often.
#[test]
fn a_chain_of_removed_records_asks_the_smallest_data_set() {
    let step = |sampling, noise_multiplier| Step {
        mechanism: Mechanism::Gaussian { noise_multiplier },
        sampling,
        group: Group::of(8),
    };
    let fixed = |dataset_size| Sampling::FixedBatch {
        batch_size: 4,
        dataset_size,
    };
    let dealt = step(Sampling::RandomAllocation { batches: 10, times: 1 }, 30.0);
    let truncated = Sampling::TruncatedPoisson {
        sample_rate: 0.5,
        max_batch_size: 4,
        dataset_size: 12,
    };
    for adjacency in [Adjacency::AddRemove, Adjacency::Remove, Adjacency::Add] {
        for (records, smallest) in [(12, 5), (9, 4), (8, 4)] {
            let of = |segments: &[(Step, u64)]| GroupChain::of(segments, adjacency).unwrap();
            let mut chain = of(&[(dealt.clone(), 10), (step(fixed(records), 3.0), 2)]).unwrap();
            let one = |step: Step| Step {
                group: Group::of(1),
                ..step
            };
            let link = [(one(dealt.clone()), 10), (one(step(fixed(smallest), 3.0)), 2)];
            let mut link = PairCurve::new(&link, Adjacency::AddRemove).unwrap();
            let wanted = link.delta_and_work(0.5, ACCURACY).unwrap().0;
            let found = chain.one_record(0.5).unwrap().0;
            assert!(
                (found.log_upper - wanted.log_upper).abs() < 1e-6,
                "{records}: {found:?} {wanted:?}"
            );
            assert!(of(&[(dealt.clone(), 10), (step(truncated, 3.0), 2)]).is_none());
        }
    }
}
