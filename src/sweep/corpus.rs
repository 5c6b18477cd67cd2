//! Files to sessions, in parallel, in the order of the files.

use std::sync::atomic::Ordering;

use rayon::prelude::*;

use crate::error::Result;

use super::runner::{Control, pool};

/// Applies `read` to every input on `jobs` threads; results come back in the order of the inputs.
/// An interrupted read leaves the rest out (`None`).
///
/// # Errors
/// [`crate::Error::Config`] if the threads cannot be started.
pub fn map_inputs<I: Sync, T: Send>(
    inputs: &[I],
    jobs: usize,
    control: &Control,
    read: impl Fn(&I) -> T + Sync,
) -> Result<Vec<Option<T>>> {
    let one = |input: &I| {
        if control.stopped() {
            return None;
        }
        let result = read(input);
        control.done.fetch_add(1, Ordering::Relaxed);
        Some(result)
    };
    Ok(pool(jobs)?.install(|| inputs.par_iter().map(one).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_is_that_of_the_inputs_for_any_number_of_threads() {
        let inputs: Vec<u32> = (0..200).collect();
        for jobs in [1, 4] {
            let control = Control::default();
            let out = map_inputs(&inputs, jobs, &control, |i| i * 2).expect("threads");
            assert!(out.iter().zip(&inputs).all(|(o, i)| *o == Some(i * 2)));
            assert_eq!(control.done.load(Ordering::Relaxed), 200);
        }
    }

    #[test]
    fn an_interrupted_read_reads_no_more() {
        let control = Control::default();
        control.stop.store(true, Ordering::Relaxed);
        assert_eq!(map_inputs(&[1, 2], 1, &control, |i| *i).expect("threads"), [None, None]);
    }
}
