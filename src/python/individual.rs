//! Individual accounts.

use crate::error::Error;
use crate::individual::Histories;
use crate::individual::StepRdp;
use crate::individual::{Account, Accounts, SLOT_TERMS, Slot};
use crate::individual::{epsilons, epsilons_of_histories};
use crate::locks::ForkLock;
use crate::python::arrays::{Changed, PyReadonlyArray1, PyReadonlyArray2};
use crate::python::convert::{guarded, vector};
use crate::python::monitor::{unless_cancelled, watched};
use numpy::ndarray::ArrayBase;
use numpy::{PyArray1, PyArray2, PyArrayMethods, ToPyArray};
use pyo3::prelude::*;
use std::sync::Arc;

type Vector<'py> = Bound<'py, PyArray1<f64>>;

/// Adds a step to rows of accounts in place; the rows may have any strides.
#[pyfunction]
pub(crate) fn accumulate_rdp<'py>(
    py: Python<'py>,
    rdp: Changed<'py>,
    norms: PyReadonlyArray1<'py, f64>,
    orders: PyReadonlyArray1<'py, f64>,
    noise_multiplier: f64,
    sample_rate: f64,
    steps: f64,
) -> PyResult<()> {
    let (norms, orders, mut rdp) = (vector(&norms), vector(&orders), rdp.0);
    let mut accounts = rdp.as_array_mut();
    if accounts.dim() != (norms.len(), orders.len()) {
        let (rows, columns) = accounts.dim();
        let wanted = format!("({}, {})", norms.len(), orders.len());
        return Err(Error::Mismatch(format!("rdp must have shape {wanted}, got ({rows}, {columns})")).into());
    }
    let columns = orders.len();
    let (step, norms, prepared) = watched(py, None, move |_| {
        let step = StepRdp::cached(sample_rate, &orders)?;
        let prepared = step.prepared(&norms, noise_multiplier, steps)?;
        Ok((step, norms, prepared))
    })?;
    let add = |rows: &mut [&mut [f64]]| py.detach(|| guarded(|| step.add(rows, &norms, &prepared)));
    let columns_are_adjacent = accounts.strides()[1] == 1;
    if columns_are_adjacent {
        let mut rows: Vec<&mut [f64]> = accounts.outer_iter_mut().filter_map(ArrayBase::into_slice).collect();
        if rows.len() == norms.len() {
            return Ok(add(&mut rows)?);
        }
    }
    let mut copy: Vec<f64> = accounts.iter().copied().collect();
    add(&mut copy.chunks_exact_mut(columns).collect::<Vec<_>>())?;
    for (account, value) in accounts.iter_mut().zip(copy) {
        *account = value;
    }
    Ok(())
}

/// Checks that there is memory for so many accounts, which a failed allocation would end the process without.
fn require_room(examples: usize) -> Result<(), Error> {
    let room = Vec::<Account>::new().try_reserve_exact(examples);
    room.map_err(|_| Error::TooLarge {
        argument: "examples",
        value: examples.to_string(),
    })
}

/// Shifts, the largest possible, noise multiplier, sample rate and number of some steps.
type Steps<'py> = (PyReadonlyArray1<'py, f64>, f64, f64, f64, f64);

/// Lower and upper bounds on ε of each of `examples` examples, from all shifts that they had.
#[pyfunction]
#[pyo3(name = "epsilons_of_histories")]
pub(crate) fn histories_epsilons<'py>(
    py: Python<'py>,
    examples: usize,
    steps: Vec<Steps<'py>>,
    delta: f64,
) -> PyResult<(Vector<'py>, Vector<'py>)> {
    require_room(examples)?;
    let steps: Vec<_> = steps
        .into_iter()
        .map(|(shifts, largest, noise_multiplier, sample_rate, count)| {
            (vector(&shifts), largest, noise_multiplier, sample_rate, count)
        })
        .collect();
    let found = watched(py, None, move |monitor| {
        let mut histories = Histories::new(examples);
        for (shifts, largest, noise_multiplier, sample_rate, count) in steps {
            unless_cancelled(monitor)?;
            histories.add(&shifts, largest, noise_multiplier, sample_rate, count)?;
        }
        epsilons_of_histories(&histories, delta, monitor)
    })?;
    let (lower, upper): (Vec<f64>, Vec<f64>) = found.into_iter().unzip();
    Ok((lower.to_pyarray(py), upper.to_pyarray(py)))
}

/// Accounts of the whole privacy loss of each example.
#[pyclass(frozen, module = "hockeystick._core")]
pub(crate) struct IndividualAccounts(Arc<ForkLock<Accounts>>);

/// Rates, Σv, whether some step had no noise; then for each slot example, rate, octave, additions and moments.
type State<'py> = (
    Vec<f64>,
    Vector<'py>,
    Bound<'py, PyArray1<bool>>,
    Bound<'py, PyArray2<i64>>,
    Bound<'py, PyArray2<f64>>,
);

fn no_account(argument: &'static str) -> Error {
    Error::Mismatch(format!("{argument} must be places of accounts"))
}

impl IndividualAccounts {
    fn holding(accounts: Accounts) -> Self {
        Self(Arc::new(ForkLock::new(accounts)))
    }

    fn read<T>(&self, look: impl FnOnce(&Accounts) -> T) -> Result<T, Error> {
        guarded(|| self.0.read(look))
    }
}

#[pymethods]
impl IndividualAccounts {
    #[new]
    fn new(examples: usize) -> PyResult<Self> {
        require_room(examples)?;
        Ok(Self::holding(guarded(|| Ok(Accounts::new(examples)))?))
    }

    fn __len__(&self) -> PyResult<usize> {
        Ok(self.read(|accounts| accounts.examples.len())?)
    }

    /// Adds `steps` steps with these shifts, of which `largest` is the largest possible.
    fn add<'py>(
        &self,
        py: Python<'py>,
        shifts: PyReadonlyArray1<'py, f64>,
        largest: f64,
        noise_multiplier: f64,
        sample_rate: f64,
        steps: f64,
    ) -> PyResult<()> {
        let shifts = vector(&shifts);
        py.detach(|| {
            let add =
                |accounts: &mut Accounts| accounts.add(&shifts, largest, noise_multiplier, sample_rate, steps);
            guarded(|| self.0.write(add)?)
        })?;
        Ok(())
    }

    /// Lower and upper bounds on ε of each account.
    fn epsilons<'py>(&self, py: Python<'py>, delta: f64) -> PyResult<(Vector<'py>, Vector<'py>)> {
        let accounts = Arc::clone(&self.0);
        let found = watched(py, None, move |monitor| {
            accounts.read(|accounts| epsilons(accounts, delta, monitor))?
        })?;
        let (lower, upper): (Vec<f64>, Vec<f64>) = found.into_iter().unzip();
        Ok((lower.to_pyarray(py), upper.to_pyarray(py)))
    }

    /// A copy of the accounts at `places`.
    fn taken<'py>(&self, places: PyReadonlyArray1<'py, i64>) -> PyResult<Self> {
        let places = vector(&places);
        let taken = self.read(|accounts| {
            let of = |&place: &i64| accounts.examples.get(usize::try_from(place).ok()?).cloned();
            let examples: Option<Vec<Account>> = places.iter().map(of).collect();
            Some(Accounts {
                rates: accounts.rates.clone(),
                examples: examples?,
            })
        })?;
        Ok(Self::holding(taken.ok_or_else(|| no_account("places"))?))
    }

    /// The accounts that stand at `own` of these, or of `other` where negative: −1 is the first there.
    fn mixed<'py>(&self, other: &Self, own: PyReadonlyArray1<'py, i64>) -> PyResult<Self> {
        let (mut first, second) = (self.read(Clone::clone)?, other.read(Clone::clone)?);
        // Rates of the other by their index in these.
        let mut rates: Vec<u16> = Vec::with_capacity(second.rates.len());
        for rate in &second.rates {
            let known = first.rates.iter().position(|own| own == rate);
            let place = known.unwrap_or_else(|| {
                first.rates.push(*rate);
                first.rates.len() - 1
            });
            rates.push(u16::try_from(place).map_err(|_| {
                Error::Mismatch("accounts with more than 65,536 different sample rates cannot be merged".into())
            })?);
        }
        let of_other = |account: &Account| {
            let mut account = account.clone();
            for slot in &mut account.slots {
                slot.rate = rates[usize::from(slot.rate)];
            }
            account.slots.sort_by_key(|slot| (slot.rate, slot.octave));
            account
        };
        let examples: Option<Vec<Account>> = vector(&own)
            .into_iter()
            .map(|place| match usize::try_from(place) {
                Ok(place) => first.examples.get(place).cloned(),
                Err(_) => second.examples.get((-1 - place) as usize).map(of_other),
            })
            .collect();
        let rates = first.rates;
        let examples = examples.ok_or_else(|| no_account("own"))?;
        Ok(Self::holding(Accounts { rates, examples }))
    }

    fn state<'py>(&self, py: Python<'py>) -> PyResult<State<'py>> {
        let accounts = self.read(Clone::clone)?;
        let gaussian: Vec<f64> = accounts.examples.iter().map(|account| account.gaussian).collect();
        let revealing: Vec<bool> = accounts.examples.iter().map(|account| account.revealing).collect();
        let (mut places, mut moments) = (Vec::new(), Vec::new());
        for (i, account) in accounts.examples.iter().enumerate() {
            for slot in &account.slots {
                let row = [i as i64, slot.rate.into(), slot.octave.into(), slot.additions.into()];
                places.extend_from_slice(&row);
                moments.extend_from_slice(&slot.moments);
            }
        }
        let rows = places.len() / 4;
        Ok((
            accounts.rates,
            gaussian.to_pyarray(py),
            revealing.to_pyarray(py),
            places.to_pyarray(py).reshape([rows, 4])?,
            moments.to_pyarray(py).reshape([rows, SLOT_TERMS])?,
        ))
    }

    /// The accounts of a state; `ValueError` if it is not one.
    #[staticmethod]
    fn from_state<'py>(
        rates: Vec<f64>,
        gaussian: PyReadonlyArray1<'py, f64>,
        revealing: PyReadonlyArray1<'py, bool>,
        places: PyReadonlyArray2<'py, i64>,
        moments: PyReadonlyArray2<'py, f64>,
    ) -> PyResult<Self> {
        let examples = vector(&gaussian)
            .into_iter()
            .zip(vector(&revealing))
            .map(|(gaussian, revealing)| Account {
                gaussian,
                revealing,
                slots: Vec::new(),
            });
        let mut accounts = Accounts {
            rates,
            examples: examples.collect(),
        };
        let (places, moments) = (places.as_array(), moments.as_array());
        let bad = || Error::Mismatch("the saved accounts are damaged: a slot is out of range".into());
        if places.ncols() != 4 || moments.ncols() != SLOT_TERMS || places.nrows() != moments.nrows() {
            return Err(bad().into());
        }
        for (place, moments) in places.outer_iter().zip(moments.outer_iter()) {
            let mut values = [0.0; SLOT_TERMS];
            for (value, moment) in values.iter_mut().zip(moments) {
                *value = *moment;
            }
            let (Ok(example), Ok(rate), Ok(octave), Ok(additions)) = (
                usize::try_from(place[0]),
                u16::try_from(place[1]),
                i16::try_from(place[2]),
                u32::try_from(place[3]),
            ) else {
                return Err(bad().into());
            };
            let slot = Slot {
                rate,
                octave,
                additions,
                moments: values,
            };
            accounts.restore(example, slot)?;
        }
        accounts.check()?;
        Ok(Self::holding(accounts))
    }
}
