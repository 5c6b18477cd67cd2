//! From what was typed to what it means; everything that can be wrong is found here, before any work.

use std::path::Path;
use std::sync::Arc;

use ctxsim::config::agents;
use ctxsim::policy::{ParamValue, PolicyConfig, PolicySpec};
use ctxsim::provider::model::{Models, SUBSTITUTE};
use ctxsim::provider::price::Date;
use ctxsim::provider::service::Service;
use ctxsim::provider::{Account, ModelSpec};
use ctxsim::session::compile::{RecordedCompactions, TokenMode};
use ctxsim::sim::RunOptions;
use ctxsim::{Error, policy};

use super::args::{AccountKind, BindingError, Compactions, DEFAULT_POLICIES, ReplayArgs};
use super::exit::{self, Failure};
use super::output::Terminal;

/// Strategies, models and options of a study.
#[derive(Debug)]
pub struct Replay {
    /// In the order given.
    pub policies: Vec<PolicyConfig>,
    /// Everything known about models.
    pub models: Models,
    /// Ids asked for; empty means each recording's own model.
    pub model_ids: Vec<String>,
    /// Options of every run.
    pub options: RunOptions,
    /// Root seed.
    pub seed: u64,
    /// Words for the recipe.
    pub account: &'static str,
    /// Words for the recipe.
    pub on_binding_error: Option<&'static str>,
    /// Day whose prices are used; `None` means each session's own.
    pub price_date: Option<Date>,
    /// How requests are bought.
    pub service: Service,
}

impl Replay {
    /// Resolves `args`.
    ///
    /// # Errors
    /// Unknown or malformed policies, parameters, models and dates; files that cannot be read.
    pub fn resolve(args: &ReplayArgs, terminal: &Terminal) -> Result<Replay, Failure> {
        let mut models = load_models(&args.models_file)?;
        let model_ids = resolve_models(&args.models, &mut models)?;
        let price_date = args.price_date.as_deref().map(str::parse).transpose()?;
        let service = args.service.service();
        let replay = Replay {
            policies: resolve_policies(args)?,
            options: RunOptions {
                account: account(args.account),
                on_binding_error: args.on_binding_error.map(binding_error),
                seed: args.seed,
                model_changes: model_ids.is_empty().then(|| Arc::new(models.priced(price_date, &service))),
                ..RunOptions::default()
            },
            models,
            model_ids,
            seed: args.seed,
            account: match args.account {
                AccountKind::Enforced => "enforced",
                AccountKind::Unenforced => "unenforced",
            },
            on_binding_error: args.on_binding_error.map(|e| match e {
                BindingError::Strip => "strip",
                BindingError::DropBlock => "drop_block",
                BindingError::Fail => "fail",
            }),
            price_date,
            service,
        };
        for config in &replay.policies {
            for warning in &config.warnings {
                terminal.warn(&format!("policy {}: {warning}", config.label));
            }
        }
        Ok(replay)
    }

    /// The model for the id of a recording, with the prices of `--price-date`; the flag says that it
    /// stands in for an unknown one.
    ///
    /// # Errors
    /// If there is no price on that day.
    pub fn own_model(&self, recorded_id: &str) -> Result<(ModelSpec, bool), Failure> {
        let id = if recorded_id.is_empty() { SUBSTITUTE } else { recorded_id };
        let resolved = self.models.resolve(id)?;
        Ok((self.priced(resolved.model)?, resolved.substituted && !recorded_id.is_empty()))
    }

    /// A model asked for.
    ///
    /// # Errors
    /// If it is unknown, or there is no price on the day asked for.
    pub fn asked_model(&self, id: &str) -> Result<ModelSpec, Failure> {
        self.priced(self.models.get_simulated(id)?)
    }

    fn priced(&self, model: &ModelSpec) -> Result<ModelSpec, Failure> {
        Ok(model.priced(self.price_date, &self.service)?)
    }
}

fn account(kind: AccountKind) -> Account {
    match kind {
        AccountKind::Enforced => Account::Enforced,
        AccountKind::Unenforced => Account::Unenforced,
    }
}

fn binding_error(error: BindingError) -> policy::OnBindingError {
    match error {
        BindingError::Strip => policy::OnBindingError::Strip,
        BindingError::DropBlock => policy::OnBindingError::DropBlock,
        BindingError::Fail => policy::OnBindingError::Fail,
    }
}

/// The models in the binary and those of `files`.
///
/// # Errors
/// Files that cannot be read or are wrong.
pub fn load_models(files: &[std::path::PathBuf]) -> Result<Models, Failure> {
    let mut models = Models::builtin()?;
    for file in files {
        add_models(&mut models, file)?;
    }
    Ok(models)
}

fn add_models(models: &mut Models, file: &Path) -> Result<Vec<String>, Failure> {
    let text = std::fs::read_to_string(file).map_err(|source| Error::Io { path: file.to_owned(), source })?;
    Ok(models.add_text(&text, &file.display().to_string())?)
}

/// A `-m` is an id, or a file whose models are meant.
fn resolve_models(typed: &[String], models: &mut Models) -> Result<Vec<String>, Failure> {
    let mut ids: Vec<String> = Vec::new();
    for name in typed {
        let path = Path::new(name);
        let found = match path.extension().is_some_and(|e| e == "toml") {
            true => add_models(models, path)?,
            false => vec![models.get_simulated(name)?.id.clone()],
        };
        for id in found {
            if !ids.contains(&id) {
                ids.push(id);
            }
        }
    }
    Ok(ids)
}

fn resolve_policies(args: &ReplayArgs) -> Result<Vec<PolicyConfig>, Failure> {
    let mut agent: Vec<(String, ParamValue)> = Vec::new();
    for file in &args.agent_config {
        agent.extend(agents::read(file)?);
    }
    let set = args.set.iter().map(|pair| key_value(pair)).collect::<Result<Vec<_>, _>>()?;
    let typed: Vec<&str> = match args.policies.is_empty() {
        true => DEFAULT_POLICIES.to_vec(),
        false => args.policies.iter().map(String::as_str).collect(),
    };
    let mut configs: Vec<PolicyConfig> = Vec::new();
    for text in typed {
        let config = text.parse::<PolicySpec>()?.load(&agent, &set)?;
        if configs.iter().any(|c| c.label == config.label) {
            let message = format!("policy {} is given twice; name one of them: -p NAME={text}", config.label);
            return Err(Failure::new(exit::USAGE, message));
        }
        configs.push(config);
    }
    check_set(&set, &configs)?;
    Ok(configs)
}

fn key_value(pair: &str) -> Result<(String, String), Failure> {
    let (key, value) = pair
        .split_once('=')
        .ok_or_else(|| Failure::new(exit::USAGE, format!("--set {pair}: write KEY=VALUE")))?;
    Ok((key.trim().to_owned(), value.trim().to_owned()))
}

/// A `--set` that no policy has is a slip.
fn check_set(set: &[(String, String)], configs: &[PolicyConfig]) -> Result<(), Failure> {
    let common = policy::common_params();
    let params = || configs.iter().flat_map(|c| &c.preset.params).chain(&common);
    // A parameter goes by its name, or by the last part of it.
    let names = params().flat_map(|p| [Some(p.name.as_str()), p.name.rsplit_once('.').map(|(_, last)| last)]);
    let known: Vec<&str> = names.flatten().collect();
    match set.iter().find(|(key, _)| !known.contains(&key.as_str())) {
        Some((key, _)) => Err(Error::unknown("parameter", key, known).into()),
        None => Ok(()),
    }
}

/// `auto` or `chars:N`.
///
/// # Errors
/// Anything else.
pub fn token_mode(text: &str) -> Result<TokenMode, Failure> {
    let wrong =
        |why: &str| Failure::new(exit::USAGE, format!("--tokens {text}: {why}; write auto or chars:N"));
    match text.split_once(':') {
        None if text == "auto" => Ok(TokenMode::Auto),
        None if text == "o200k" => Err(wrong("this tokenizer is not in this build")),
        Some(("chars", n)) => {
            let milli = ctxsim::metrics::parse_decimal(n, 3).ok().and_then(|milli| u32::try_from(milli).ok());
            match milli {
                Some(milli) if milli > 0 => Ok(TokenMode::CharsMilli(milli)),
                _ => Err(wrong("N is a number of characters above 0")),
            }
        }
        _ => Err(wrong("there is no such way to count")),
    }
}

/// For `Session::view`.
pub fn recorded_compactions(what: Compactions) -> RecordedCompactions {
    match what {
        Compactions::Undo => RecordedCompactions::Undo,
        Compactions::Keep => RecordedCompactions::Keep,
    }
}

/// For recipes.
pub fn compactions_word(what: Compactions) -> &'static str {
    match what {
        Compactions::Undo => "undo",
        Compactions::Keep => "keep",
    }
}
