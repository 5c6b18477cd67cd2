//! Scenario files: one study as data.
//!
//! ```toml
//! description = "What do passes save?"
//! policies = ["none", "mine.toml", "low=mine.toml:minSaved=0"]
//! models = ["claude-opus-5-5"]
//!
//! [corpus]
//! inputs = ["../fixtures/traces"]
//! ```

use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::Deserialize;

use crate::error::{Error, Result};

/// One study.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "ctxsim scenario")]
pub struct Scenario {
    /// What the study is about, in a line.
    #[serde(default)]
    pub description: String,
    /// Sessions to replay.
    pub corpus: CorpusSpec,
    /// Policies as `-p` takes them; the first is the baseline. Files are relative to the scenario file.
    /// Empty means what `simulate` compares without `-p`.
    #[serde(default)]
    pub policies: Vec<String>,
    /// Models as `-m` takes them; empty means each recording's own.
    #[serde(default)]
    pub models: Vec<String>,
    /// How to run.
    #[serde(default)]
    pub options: OptionsSpec,
    /// What to write.
    #[serde(default)]
    pub output: OutputSpec,
    /// What `ctxsim gate` checks.
    #[serde(default)]
    pub gate: GateSpec,
}

/// Sessions of a study.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CorpusSpec {
    /// Files, folders and globs, relative to the scenario file.
    pub inputs: Vec<String>,
    /// Read as this format instead of looking at the content.
    #[serde(default)]
    pub input_format: Option<String>,
    /// Only sessions active on or after this day (YYYY-MM-DD).
    #[serde(default)]
    pub since: Option<String>,
    /// Only recordings that lie in a folder with this in its name, or say that they were made in one.
    #[serde(default)]
    pub project: Option<String>,
}

/// Options of a study; the names are those of the flags.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct OptionsSpec {
    /// Root seed.
    pub seed: u64,
    /// `auto` or `chars:N`.
    pub tokens: String,
    /// Kind of account.
    pub account: AccountSpec,
    /// Override of the strategies' answer to a binding rejection.
    pub on_binding_error: Option<BindingErrorSpec>,
    /// What becomes of the recordings' own compactions.
    pub recorded_compactions: CompactionsSpec,
    /// Parameters of every policy that has them, as `KEY=VALUE`.
    pub set: Vec<String>,
    /// Agents' own configuration files, relative to the scenario file.
    pub agent_config: Vec<String>,
    /// Files of more models, relative to the scenario file.
    pub models_file: Vec<String>,
    /// Use the prices of this day (YYYY-MM-DD).
    pub price_date: Option<String>,
    /// All sessions share a cache, as those of one organisation do, in time order.
    pub shared_cache: bool,
    /// How requests are bought: speed, batches, region.
    pub service: ServiceSpec,
}

impl Default for OptionsSpec {
    fn default() -> OptionsSpec {
        OptionsSpec {
            seed: 0,
            tokens: "auto".to_owned(),
            account: AccountSpec::default(),
            on_binding_error: None,
            recorded_compactions: CompactionsSpec::default(),
            set: Vec::new(),
            agent_config: Vec::new(),
            models_file: Vec::new(),
            price_date: None,
            shared_cache: false,
            service: ServiceSpec::default(),
        }
    }
}

/// `service`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ServiceSpec {
    /// Pay for this speed.
    pub speed: SpeedSpec,
    /// Pay for batches.
    pub batch: bool,
    /// Pay for where requests are served.
    pub region: RegionSpec,
}

/// `service.speed`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SpeedSpec {
    /// As everyone is served.
    #[default]
    Standard,
    /// Faster answers for a multiple of the price, where the vendor sells them (Anthropic's fast mode).
    Fast,
}

/// `service.region`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RegionSpec {
    /// Anywhere.
    #[default]
    Global,
    /// In the United States only.
    Us,
    /// At a regional endpoint of a cloud.
    Regional,
}

/// `account`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AccountSpec {
    /// The provider checks that thinking matches its history.
    #[default]
    Enforced,
    /// It lets mismatches through.
    Unenforced,
}

/// `on_binding_error`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum BindingErrorSpec {
    /// Remove all thinking in the history, and retry once.
    Strip,
    /// Ask the provider to drop the blocks that fail.
    DropBlock,
    /// End the run.
    Fail,
}

/// `recorded_compactions`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CompactionsSpec {
    /// The history is what it would have been without them.
    #[default]
    Undo,
    /// They happen as recorded.
    Keep,
}

/// What a study writes besides results.json and report.md.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct OutputSpec {
    /// requests.csv.
    pub requests: bool,
    /// events.jsonl.
    pub events: bool,
    /// Token curves, for this many sessions with the most requests; 0 draws none.
    pub plots: usize,
    /// Session of the headline picture; default: the one with the most requests.
    pub headline: Option<String>,
}

/// The gate of a study.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GateSpec {
    /// Rules as `--rule` takes them; empty means those that hold without any.
    #[serde(default)]
    pub rules: Vec<String>,
}

impl Default for OutputSpec {
    fn default() -> OutputSpec {
        OutputSpec { requests: true, events: true, plots: 12, headline: None }
    }
}

impl Scenario {
    /// Parses a scenario; `path` names it in errors, and relative paths in it start at its folder.
    ///
    /// # Errors
    /// [`Error::Input`] with line and column.
    pub fn parse(path: &Path, text: &str) -> Result<Scenario> {
        let mut scenario: Scenario = toml::from_str(text).map_err(|e| Error::toml(path, text, &e))?;
        if scenario.corpus.inputs.is_empty() {
            let reason = "field `inputs` of [corpus] is empty: name files, folders or globs".to_owned();
            return Err(Error::Input { path: path.to_owned(), line: 0, reason });
        }
        let folder = path.parent().unwrap_or(Path::new(""));
        let here = |text: &mut String| *text = folder.join(&*text).to_string_lossy().into_owned();
        scenario.corpus.inputs.iter_mut().for_each(here);
        scenario.options.agent_config.iter_mut().for_each(here);
        scenario.options.models_file.iter_mut().for_each(here);
        for name in scenario.models.iter_mut().filter(|name| name.ends_with(".toml")) {
            here(name);
        }
        for policy in &mut scenario.policies {
            *policy = relative_policy(folder, policy);
        }
        Ok(scenario)
    }

    /// Reads a scenario file.
    ///
    /// # Errors
    /// As [`Scenario::parse`], and if it cannot be read.
    pub fn read(path: &Path) -> Result<Scenario> {
        let text = std::fs::read_to_string(path)
            .map_err(|source| Error::Io { path: PathBuf::from(path), source })?;
        Scenario::parse(path, &text)
    }
}

/// `label=file.toml:key=value` with the file seen from `folder`; presets stay as they are.
fn relative_policy(folder: &Path, typed: &str) -> String {
    let (head, tail) = typed.split_at(typed.find(':').unwrap_or(typed.len()));
    let (label, source) = head.split_at(head.find('=').map_or(0, |i| i + 1));
    match source.ends_with(".toml") {
        true => format!("{label}{}{tail}", folder.join(source).display()),
        false => typed.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_relative_to_the_file_and_defaults_are_filled_in() {
        let text = "policies = ['none', 'x=mine.toml:a=1', 'other:keep=2']\n[corpus]\ninputs = ['../t']\n";
        let scenario = Scenario::parse(Path::new("dir/s.toml"), text).expect("right");
        assert_eq!(scenario.corpus.inputs, ["dir/../t"]);
        assert_eq!(scenario.policies, ["none", "x=dir/mine.toml:a=1", "other:keep=2"]);
        assert_eq!(scenario.options.tokens, "auto");
        assert!(scenario.output.requests && scenario.output.plots == 12);
    }

    #[test]
    fn errors_name_line_column_and_field() {
        let text = "policies = ['none']\n\n[corpus]\ninputs = ['a']\n  polices = 3\n";
        let error = Scenario::parse(Path::new("s.toml"), text).expect_err("unknown field").to_string();
        assert!(error.starts_with("s.toml, line 5: column 3: unknown field `polices`"), "{error}");
        let error = Scenario::parse(Path::new("s.toml"), "policies = ['none']\n").expect_err("no corpus");
        assert!(error.to_string().contains("missing field `corpus`"), "{error}");
    }
}
