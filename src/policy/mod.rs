//! The policy language: rules as data, and the interpreter that turns them into plans.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::error::Result;
use crate::provider::ModelSpec;

/// A parameter value.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum ParamValue {
    Bool(bool),
    Int(i64),
    Float(f64),
    Text(String),
    List(Vec<String>),
}

/// A parameter of a preset, under the agent's own name.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Param {
    /// Dotted name (`contextEditing.minCharsPerPass`); a unique last part is accepted.
    pub name: String,
    /// Default; where it depends on the model, the default for most models.
    pub default: ParamValue,
    /// Unit (`utf16`, `turns`, `tokens`, ...), empty for switches and names.
    pub unit: String,
    /// Allowed range of numbers.
    pub range: Option<(f64, f64)>,
    /// Allowed words.
    pub choices: Vec<String>,
    /// `linear` or `log`: how a sweep or search spaces it.
    pub scale: String,
    /// One line.
    pub doc: String,
}

/// A parsed policy file.
#[derive(Debug)]
pub struct Preset {
    pub name: String,
    /// The version of the agent it models.
    pub version: String,
    /// One line for lists.
    pub summary: String,
    /// Where its rules come from.
    pub sources: Vec<String>,
    /// Its parameters, in file order.
    pub params: Vec<Param>,
}

/// A policy as typed: `label=source:key=value,key=[a,b]`.
#[derive(Debug, Clone, PartialEq)]
pub struct PolicySpec {
    pub label: Option<String>,
    /// Preset name or path of a TOML file.
    pub source: String,
    pub overrides: Vec<(String, String)>,
}

/// A preset with parameters set.
#[derive(Debug, Clone)]
pub struct Policy {
    /// Name in results.
    pub label: String,
    pub preset: Arc<Preset>,
    /// Every parameter with its value (where the default depends on the model, the value set or, if
    /// none was set, absent).
    pub params: BTreeMap<String, ParamValue>,
}

/// A strategy with all its parameters resolved against a model, ready to run.
#[derive(Debug, Clone)]
pub struct Strategy {
    /// Name in results.
    pub label: String,
}

/// Names of the presets in the binary, in alphabetical order.
pub fn preset_names() -> Vec<&'static str> {
    vec!["none"]
}

/// A preset of the binary, or a policy file.
pub fn load_preset(_source: &str) -> Result<Arc<Preset>> {
    unimplemented!()
}

impl std::str::FromStr for PolicySpec {
    type Err = crate::Error;

    fn from_str(_text: &str) -> Result<PolicySpec> {
        unimplemented!()
    }
}

impl PolicySpec {
    /// Loads the preset and sets the parameters: first `agent_config` (name, value) pairs and `--set`
    /// pairs for the parameters it has, then its own overrides, which must all exist.
    pub fn load(&self, _agent_config: &[(String, ParamValue)], _set: &[(String, String)]) -> Result<Policy> {
        unimplemented!()
    }
}

impl Policy {
    /// Resolves everything that depends on the model.
    pub fn strategy(&self, _model: &ModelSpec) -> Result<Strategy> {
        unimplemented!()
    }
}
