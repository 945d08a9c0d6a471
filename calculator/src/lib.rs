//! What docs/calculator/worker.js calls: the core behind plain exports, which pass numbers through memory.
//!
//! The caller writes a run to the array at [`fields`] and calls [`start`]; then it asks with [`ask`], and reads both ends at
//! [`ends`]. Where one of them returns 0, the reason is the UTF-8 text at [`message`]. A panic traps, after which
//! the text is that of the panic and the instance must not be asked again.

// Exports need names that are not mangled, which could clash with others. No memory is touched by hand.
#![allow(unsafe_code)]

mod run;

use run::{FIELDS, Fields, Question, Run};
use std::cell::{Cell, RefCell};

thread_local! {
    static GIVEN: [Cell<f64>; FIELDS] = const { [const { Cell::new(0.0) }; FIELDS] };
    static ENDS: [Cell<f64>; 2] = const { [const { Cell::new(0.0) }; 2] };
    static CURRENT: RefCell<Option<Run>> = const { RefCell::new(None) };
    static MESSAGE: RefCell<String> = const { RefCell::new(String::new()) };
}

fn say(words: String) {
    MESSAGE.with(|message| message.replace(words));
}

/// Where the numbers of a run are to be written.
#[unsafe(no_mangle)]
pub extern "C" fn fields() -> *const f64 {
    GIVEN.with(|fields| fields.as_ptr().cast())
}

/// Where both ends of an answer are to be read.
#[unsafe(no_mangle)]
pub extern "C" fn ends() -> *const f64 {
    ENDS.with(|ends| ends.as_ptr().cast())
}

/// Where the reason of a refusal or a panic begins.
#[unsafe(no_mangle)]
pub extern "C" fn message() -> *const u8 {
    MESSAGE.with(|message| message.borrow().as_ptr())
}

/// How many bytes the reason has.
#[unsafe(no_mangle)]
pub extern "C" fn message_length() -> usize {
    MESSAGE.with(|message| message.borrow().len())
}

/// Makes the run of the numbers at [`fields`]; 1, or 0 where it is refused.
#[unsafe(no_mangle)]
pub extern "C" fn start() -> u32 {
    std::panic::set_hook(Box::new(|panic| say(panic.to_string())));
    let given: Fields = GIVEN.with(|fields| std::array::from_fn(|i| fields[i].get()));
    let made = Run::new(&given);
    let is_made = made.is_ok();
    let run = made.map_err(|error| say(error.to_string())).ok();
    CURRENT.with(|current| current.replace(run));
    u32::from(is_made)
}

/// Answers a question about that run: ε at a δ (0), δ at an ε (1), or how often attacks miss at a rate of false alarms (2),
/// or an upper bound on ε at a δ (3); 1, or 0 where it is refused.
#[unsafe(no_mangle)]
pub extern "C" fn ask(question: u32, at: f64, tolerance: f64) -> u32 {
    let question = match question {
        0 => Question::Epsilon,
        1 => Question::Delta,
        2 => Question::Misses,
        3 => Question::Upper,
        _ => {
            say("the question is none of those that are known".into());
            return 0;
        }
    };
    CURRENT.with(|current| {
        let mut current = current.borrow_mut();
        let Some(run) = current.as_mut() else {
            say("there is no run to ask about".into());
            return 0;
        };
        match run.answer(question, at, tolerance) {
            Ok(found) => {
                ENDS.with(|ends| {
                    ends[0].set(found.lower);
                    ends[1].set(found.upper);
                });
                1
            }
            Err(error) => {
                say(error.to_string());
                0
            }
        }
    })
}
