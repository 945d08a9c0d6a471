//! What the fuzz targets do with arbitrary bytes.

use hockeystick::Composition;
use hockeystick::Unwatched;
use hockeystick::individual::epsilons;
use hockeystick::individual::{Account, Accounts, SLOT_TERMS, Slot};
use hockeystick::planning;
use hockeystick::planning::{Bracket, Target};
use hockeystick::{Adjacency, Group, Mechanism, Sampling, Step};
use hockeystick::{Error, Result};

/// Bytes as numbers; zeros once there are no more.
struct Source<'a>(&'a [u8]);

impl Source<'_> {
    fn bytes<const N: usize>(&mut self) -> [u8; N] {
        let mut found = [0; N];
        let length = N.min(self.0.len());
        found[..length].copy_from_slice(&self.0[..length]);
        self.0 = &self.0[length..];
        found
    }

    fn below(&mut self, end: u8) -> u8 {
        self.bytes::<1>()[0] % end
    }

    /// Any bits, or a number that means something more often than those do.
    fn number(&mut self) -> f64 {
        const USUAL: [f64; 12] = [
            0.0,
            -0.0,
            1.0,
            -1.0,
            0.5,
            1e-5,
            1e300,
            1e-300,
            5e-324,
            f64::NAN,
            f64::INFINITY,
            f64::NEG_INFINITY,
        ];
        match self.below(16) {
            usual @ 0..12 => USUAL[usize::from(usual)],
            12 | 13 => f64::from(u16::from_le_bytes(self.bytes())) / 65_536.0,
            14 => f64::from(u16::from_le_bytes(self.bytes())) / 256.0,
            _ => f64::from_le_bytes(self.bytes()),
        }
    }

    fn count(&mut self) -> u64 {
        match self.below(4) {
            0 => u64::from(self.bytes::<1>()[0]),
            1 => u64::from(u16::from_le_bytes(self.bytes())),
            _ => u64::from_le_bytes(self.bytes()),
        }
    }
}

/// Puts back the accounts that the bytes stand for, and asks those that pass the checks for ε.
///
/// # Panics
/// If an account that was put back has bounds on ε that are none, or there is a defect of the crate.
pub(crate) fn state(data: &[u8]) {
    let mut source = Source(data);
    let examples = (0..source.below(4)).map(|_| Account {
        gaussian: source.number(),
        revealing: source.below(8) == 0,
        slots: Vec::new(),
    });
    let examples = examples.collect();
    let rates = (0..source.below(3)).map(|_| source.number()).collect();
    let mut accounts = Accounts { rates, examples };
    for _ in 0..source.below(6) {
        let example = usize::from(source.below(5));
        let (rate, octave) = (u16::from(source.below(4)), i16::from_le_bytes(source.bytes()));
        let steps = source.number();
        let mut moments = [0.0; SLOT_TERMS];
        moments[0] = steps;
        let share = f64::from(source.below(200)) / 100.0 - 1.0;
        for moment in &mut moments[1..] {
            *moment = if source.below(8) == 0 {
                source.number()
            } else {
                share * steps
            };
        }
        let slot = Slot {
            rate,
            octave: if source.below(4) == 0 { octave } else { octave % 16 },
            additions: u32::from_le_bytes(source.bytes()),
            moments,
        };
        let before = accounts.clone();
        if accounts.restore(example, slot).is_err() {
            assert!(same(&before, &accounts), "a refused slot changed the accounts");
        }
    }
    if accounts.check().is_err() {
        return;
    }
    let delta = if source.below(2) == 0 { 1e-5 } else { source.number() };
    let Some(found) = expected(epsilons(&accounts, delta, &Unwatched)) else {
        return;
    };
    assert_eq!(found.len(), accounts.examples.len());
    for (lower, upper) in found {
        assert!(0.0 <= lower && lower <= upper, "{lower} {upper}");
    }
}

/// Asks for every unknown of the run that the bytes stand for.
///
/// # Panics
/// If an answer is out of range, or there is a defect of the crate.
pub(crate) fn parameters(data: &[u8]) {
    let mut source = Source(data);
    let mechanism = match source.below(3) {
        0 => Mechanism::Gaussian {
            noise_multiplier: source.number(),
        },
        1 => Mechanism::Laplace { scale: source.number() },
        _ => Mechanism::RandomizedResponse { keep: source.number() },
    };
    let sampling = match source.below(3) {
        0 => Sampling::Poisson {
            sample_rate: source.number(),
        },
        1 => Sampling::FixedBatch {
            batch_size: source.count(),
            dataset_size: source.count(),
        },
        _ => Sampling::Mixture,
    };
    let members = |source: &mut Source| {
        let some = source.below(4) == 0;
        some.then(|| (0..source.below(4)).map(|_| source.number()).collect())
    };
    let group = Group {
        rates: members(&mut source),
        norms: members(&mut source),
        // Large groups take long, and no other path.
        size: source.count() % 20_001 / (1 + 99 * u64::from(source.below(8) != 0)),
        cosine: [1.0, 1.0, 0.0, 0.3][source.below(4) as usize],
    };
    let neighbours = match source.below(4) {
        0 => Adjacency::AddRemove,
        1 => Adjacency::Add,
        2 => Adjacency::Remove,
        _ => Adjacency::Replace,
    };
    let scheme = Step {
        mechanism,
        sampling,
        group,
    };
    let steps = source.count() % 100_000;
    let target = Target {
        epsilon: source.number(),
        delta: source.number(),
        tolerance: 1e-4,
    };
    match source.below(6) {
        0 => bracket(planning::noise_multiplier(&scheme, steps, neighbours, target)),
        1 => bracket(planning::sample_rate(&scheme, steps, neighbours, target)),
        2 => bracket(planning::steps(&scheme, neighbours, target)),
        3 => bracket(planning::group_size(&scheme, steps, neighbours, target)),
        4 => {
            let found = Composition::new(&[(scheme, steps)], neighbours)
                .and_then(|mut run| run.epsilon(target.delta, target.tolerance));
            if let Some(found) = expected(found) {
                assert!(0.0 <= found.lower && found.lower <= found.upper, "{found:?}");
            }
        }
        _ => {
            let found = Composition::new(&[(scheme, steps)], neighbours)
                .and_then(|mut run| run.delta(target.epsilon, target.tolerance));
            if let Some(found) = expected(found) {
                let (lower, upper) = (found.lower(), found.upper());
                assert!(0.0 <= lower && lower <= upper && upper <= 1.0, "{lower} {upper}");
            }
        }
    }
}

fn bracket(found: Result<Bracket>) {
    if let Some(found) = expected(found) {
        assert!(found.safe >= 0.0 && found.unsafe_side >= 0.0, "{found:?}");
    }
}

/// What was found; `None` where it was refused, as bad arguments are.
fn expected<T>(found: Result<T>) -> Option<T> {
    assert!(
        !matches!(found, Err(Error::Internal | Error::Interrupted)),
        "a defect of the crate"
    );
    found.ok()
}

/// Equality to the last bit, which NaN has as well.
fn same(one: &Accounts, other: &Accounts) -> bool {
    format!("{one:?}") == format!("{other:?}")
}
