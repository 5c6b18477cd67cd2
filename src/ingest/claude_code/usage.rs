//! The usage of one response, gathered from all of its lines.
//!
//! Every line of a response repeats its usage; output grows while the response streams in. So the
//! lines are merged by the field-wise maximum, and never summed (docs/sources.md).

use super::lenient::{Count, MAX_TOKENS, Object};
use super::wire;
use crate::transcript::UsageDoubts;
use crate::usage::Usage;

/// Usage as reported so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Reported {
    input: u64,
    read: u64,
    /// All writes, whatever their life.
    written: u64,
    written_5m: u64,
    written_1h: u64,
    output: u64,
    /// At least one field was there.
    any: bool,
    /// At least one field was no token count.
    bad: bool,
    /// What contradicts itself.
    doubts: UsageDoubts,
}

impl Reported {
    /// What one line says. More than one iteration means that the provider passed over the request
    /// several times and the top-level fields tell of the last pass only: the passes are summed.
    pub fn of_line(usage: &wire::Usage) -> Reported {
        let passes = usage.iterations.0.iter().filter_map(|i| i.0.as_ref());
        if passes.clone().count() > 1 {
            return passes.map(Reported::of_pass).fold(Reported::default(), Reported::sum);
        }
        let mut reported = Reported::default();
        reported.input = reported.field(usage.input_tokens);
        reported.read = reported.field(usage.cache_read_input_tokens);
        reported.written = reported.field(usage.cache_creation_input_tokens);
        reported.output = reported.field(usage.output_tokens);
        reported.split(&usage.cache_creation);
        reported
    }

    fn of_pass(pass: &wire::Iteration) -> Reported {
        let mut reported = Reported::default();
        reported.input = reported.field(pass.input_tokens);
        reported.read = reported.field(pass.cache_read_input_tokens);
        reported.written = reported.field(pass.cache_creation_input_tokens);
        reported.output = reported.field(pass.output_tokens);
        reported.split(&pass.cache_creation);
        reported
    }

    fn field(&mut self, count: Count) -> u64 {
        self.any |= count != Count::Absent;
        self.bad |= count == Count::Bad;
        count.tokens().unwrap_or(0)
    }

    fn split(&mut self, split: &Object<wire::CacheCreation>) {
        if let Some(split) = &split.0 {
            self.written_5m = self.field(split.ephemeral_5m_input_tokens);
            self.written_1h = self.field(split.ephemeral_1h_input_tokens);
            let by_life = self.written_5m + self.written_1h;
            // Clients that know no lives write zeros.
            self.doubts.split_differs = by_life > 0 && by_life != self.written;
        }
    }

    fn sum(self, other: Reported) -> Reported {
        Reported {
            input: self.input + other.input,
            read: self.read + other.read,
            written: self.written + other.written,
            written_5m: self.written_5m + other.written_5m,
            written_1h: self.written_1h + other.written_1h,
            output: self.output + other.output,
            any: self.any || other.any,
            bad: self.bad || other.bad,
            doubts: UsageDoubts {
                split_differs: self.doubts.split_differs || other.doubts.split_differs,
                lines_differ: false,
            },
        }
    }

    /// Field-wise maximum.
    pub fn max(self, other: Reported) -> Reported {
        Reported {
            input: self.input.max(other.input),
            read: self.read.max(other.read),
            written: self.written.max(other.written),
            written_5m: self.written_5m.max(other.written_5m),
            written_1h: self.written_1h.max(other.written_1h),
            output: self.output.max(other.output),
            any: self.any || other.any,
            bad: self.bad || other.bad,
            doubts: UsageDoubts {
                split_differs: self.doubts.split_differs || other.doubts.split_differs,
                lines_differ: self.doubts.lines_differ || other.doubts.lines_differ || self.differs(other),
            },
        }
    }

    /// Both lines report a prompt, and not the same one. A prompt of nothing was not known yet.
    fn differs(self, other: Reported) -> bool {
        let prompts = |r: Reported| [r.input, r.read, r.written.max(r.written_5m + r.written_1h)];
        let (own, others) = (prompts(self), prompts(other));
        own.iter().zip(others).any(|(own, other)| *own != other)
            && own.iter().sum::<u64>() > 0
            && others.iter().sum::<u64>() > 0
    }

    /// What is odd about it.
    pub fn doubts(&self) -> UsageDoubts {
        self.doubts
    }

    /// Whether a field was no token count: the response then counts as one without usage.
    pub fn is_bad(&self) -> bool {
        let writes = self.written.max(self.written_5m + self.written_1h);
        self.bad || self.input + self.read + writes > MAX_TOKENS || self.output > MAX_TOKENS
    }

    /// Usage, if it is usable. Writes that no part of the split accounts for have the short life.
    pub fn finish(&self) -> Option<Usage> {
        let unsplit = self.written.saturating_sub(self.written_5m + self.written_1h);
        (self.any && !self.is_bad()).then_some(Usage {
            uncached_tokens: self.input,
            cache_read_tokens: self.read,
            cache_write_5m_tokens: self.written_5m + unsplit,
            cache_write_1h_tokens: self.written_1h,
            output_tokens: self.output,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{Reported, Usage, wire};

    fn reported(json: &str) -> Reported {
        Reported::of_line(&serde_json::from_str::<wire::Usage>(json).unwrap())
    }

    fn usage(input: u64, read: u64, written_5m: u64, written_1h: u64, output: u64) -> Option<Usage> {
        Some(Usage {
            uncached_tokens: input,
            cache_read_tokens: read,
            cache_write_5m_tokens: written_5m,
            cache_write_1h_tokens: written_1h,
            output_tokens: output,
        })
    }

    #[test]
    fn writes_without_a_split_have_the_short_life() {
        let plain = r#"{"input_tokens":3,"cache_creation_input_tokens":50,"cache_read_input_tokens":7,"output_tokens":9}"#;
        assert_eq!(reported(plain).finish(), usage(3, 7, 50, 0, 9));
        let split = r#"{"cache_creation_input_tokens":50,
            "cache_creation":{"ephemeral_5m_input_tokens":20,"ephemeral_1h_input_tokens":30}}"#;
        assert_eq!(reported(split).finish(), usage(0, 0, 20, 30, 0));
        let zeros = r#"{"cache_creation_input_tokens":50,
            "cache_creation":{"ephemeral_5m_input_tokens":0,"ephemeral_1h_input_tokens":0}}"#;
        assert_eq!(reported(zeros).finish(), usage(0, 0, 50, 0, 0));
    }

    #[test]
    fn a_line_without_the_split_does_not_double_the_writes_of_one_with_it() {
        let plain = reported(r#"{"cache_creation_input_tokens":50}"#);
        let split = reported(
            r#"{"cache_creation_input_tokens":50,"cache_creation":{"ephemeral_1h_input_tokens":50}}"#,
        );
        assert_eq!(plain.max(split).finish(), usage(0, 0, 0, 50, 0));
    }

    #[test]
    fn several_iterations_are_summed_and_one_is_not() {
        let two = r#"{"input_tokens":1,"output_tokens":2,"iterations":[
            {"input_tokens":10,"output_tokens":20,"cache_read_input_tokens":5,"cache_creation_input_tokens":4},
            {"input_tokens":1,"output_tokens":2,"cache_creation":{"ephemeral_1h_input_tokens":8},
             "cache_creation_input_tokens":8}]}"#;
        assert_eq!(reported(two).finish(), usage(11, 5, 4, 8, 22));
        let one =
            r#"{"input_tokens":1,"output_tokens":2,"iterations":[{"input_tokens":10,"output_tokens":20}]}"#;
        assert_eq!(reported(one).finish(), usage(1, 0, 0, 0, 2));
    }

    #[test]
    fn sums_over_the_limit_are_bad_too() {
        let each = r#"{"input_tokens":600000000,"cache_read_input_tokens":600000000}"#;
        let pass = r#"{"output_tokens":600000000}"#;
        let split = r#"{"cache_creation":{"ephemeral_5m_input_tokens":600000000,"ephemeral_1h_input_tokens":600000000}}"#;
        for bad in [each, split, &format!(r#"{{"iterations":[{pass},{pass}]}}"#)] {
            assert!(reported(bad).is_bad(), "{bad}");
            assert_eq!(reported(bad).finish(), None, "{bad}");
        }
        assert!(!reported(r#"{"input_tokens":1000000000,"output_tokens":1000000000}"#).is_bad());
    }

    #[test]
    fn bad_counts_and_no_counts_are_no_usage() {
        assert_eq!(reported("{}").finish(), None);
        assert!(!reported("{}").is_bad());
        for bad in
            [r#"{"input_tokens":-1}"#, r#"{"output_tokens":"NaN"}"#, r#"{"cache_read_input_tokens":2e9}"#]
        {
            assert!(reported(bad).is_bad(), "{bad}");
            assert_eq!(reported(bad).max(reported(r#"{"input_tokens":5}"#)).finish(), None, "{bad}");
        }
    }
}
