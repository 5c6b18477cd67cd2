//! Token curves of a study, collected while it runs.

use ctxsim::config::scenario::OutputSpec;
use ctxsim::metrics;
use ctxsim::report::ResultSet;
use ctxsim::report::files::OutputDir;
use ctxsim::report::plot::token_curve::{Mark, MarkKind, Series, TokenCurve};
use ctxsim::report::plot::{Bars, HeatMap, Look, Pareto, PictureFormat, Ranking, SweepCurve, Trials};
use ctxsim::report::requests::RunRecord;

use super::exit::Failure;

/// Curves of the sessions with the most requests, one picture per session and model.
#[derive(Debug)]
pub struct Pictures {
    keep: usize,
    headline: Option<String>,
    curves: Vec<TokenCurve>,
    /// Policies in the order in which they came: that of the study.
    policies: Vec<String>,
}

impl Default for Pictures {
    fn default() -> Pictures {
        Pictures::new(OutputSpec::default().plots, None)
    }
}

impl Pictures {
    /// Keeps the curves of `keep` sessions, and of the headline session if one is named.
    pub fn new(keep: usize, headline: Option<String>) -> Pictures {
        Pictures { keep, headline, curves: Vec::new(), policies: Vec::new() }
    }

    /// Takes a run; runs of a session come one after the other.
    pub fn add(&mut self, run: &RunRecord<'_>, window_tokens: u64) {
        let place = self.place(run.policy);
        let mut series = Series::of(run.policy, place, run.record);
        series.marks.extend(stop_mark(run));
        let known = self.curves.iter_mut().rev().find(|c| c.session == run.session && c.model == run.model);
        match known {
            Some(curve) => curve.series.push(series),
            None => {
                self.drop_shortest();
                self.curves.push(TokenCurve {
                    session: run.session.to_owned(),
                    model: run.model.to_owned(),
                    window_tokens,
                    series: vec![series],
                });
            }
        }
    }

    /// Place of a policy among all, which gives its look.
    fn place(&mut self, policy: &str) -> usize {
        self.policies.iter().position(|known| known == policy).unwrap_or_else(|| {
            self.policies.push(policy.to_owned());
            self.policies.len() - 1
        })
    }

    /// Makes room for one more; the earlier of two equal ones stays.
    fn drop_shortest(&mut self) {
        if self.curves.len() < self.keep {
            return;
        }
        let droppable = (0..self.curves.len()).rev().filter(|&i| !self.is_headline(&self.curves[i]));
        if let Some(shortest) = droppable.min_by_key(|&i| requests(&self.curves[i])) {
            self.curves.remove(shortest);
        }
    }

    fn is_headline(&self, curve: &TokenCurve) -> bool {
        self.headline.as_ref().is_some_and(|wanted| curve.session.starts_with(wanted.as_str()))
    }

    /// Draws everything into `plots/`: the headline also as `token-curve.svg` and `.png`, then cost and misses, then
    /// the other curves. Returns caption and path of each in this order.
    ///
    /// # Errors
    /// If a file cannot be written.
    pub fn write(&self, dir: &OutputDir, results: &ResultSet) -> Result<Vec<(String, String)>, Failure> {
        let mut curves: Vec<&TokenCurve> = self.curves.iter().collect();
        curves.sort_by(|a, b| {
            let key = |c: &TokenCurve| (!self.is_headline(c), std::cmp::Reverse(requests(c)));
            key(a).cmp(&key(b)).then_with(|| (&a.session, &a.model).cmp(&(&b.session, &b.model)))
        });
        let many_models = curves.iter().any(|c| c.model != curves[0].model);
        let mut captions = Vec::new();
        for (i, curve) in curves.iter().enumerate() {
            let name = match many_models {
                true => file_name(&format!("{}-{}", curve.session, curve.model)),
                false => file_name(&curve.session),
            };
            for format in PictureFormat::ALL {
                let bytes = curve.draw(format, Look::default())?;
                dir.write(&format!("plots/token-curve-{name}.{}", format.extension()), &bytes)?;
                if i == 0 {
                    dir.write(&format!("plots/token-curve.{}", format.extension()), &bytes)?;
                }
            }
            let caption = format!("Prompt tokens per request, session {} on {}", curve.session, curve.model);
            captions.push((caption, format!("plots/token-curve-{name}.svg")));
        }
        if self.keep > 0 {
            let totals = bars(dir, results)?;
            let after_headline = captions.len().min(1);
            captions.splice(after_headline..after_headline, totals);
        }
        Ok(captions)
    }
}

/// Cost and misses of every strategy.
fn bars(dir: &OutputDir, results: &ResultSet) -> Result<Vec<(String, String)>, Failure> {
    let mut captions = Vec::new();
    for (name, bars) in [("cost", Bars::cost(results)), ("misses", Bars::misses(results))] {
        for format in PictureFormat::ALL {
            let bytes = bars.draw(format, Look::default())?;
            dir.write(&format!("plots/{name}.{}", format.extension()), &bytes)?;
        }
        captions.push((bars.title, format!("plots/{name}.svg")));
    }
    Ok(captions)
}

/// Draws the pictures of a grid of strategies into `plots/`, those that there are. Returns caption and path of each.
///
/// # Errors
/// If a file cannot be written.
pub fn write_sweep(dir: &OutputDir, results: &ResultSet) -> Result<Vec<(String, String)>, Failure> {
    let cost = Trials::of_results(results, metrics::find("cost_usd")?);
    let hits = Trials::without_intervals(results, metrics::find("hit_rate")?);
    write_trials(dir, &cost, &hits)
}

/// Draws strategies by what they were compared by, and their cost against `hits`.
///
/// # Errors
/// If a file cannot be written.
pub fn write_trials(dir: &OutputDir, cost: &Trials, hits: &Trials) -> Result<Vec<(String, String)>, Failure> {
    let mut captions = Vec::new();
    for format in PictureFormat::ALL {
        let look = Look::default();
        let swept = match cost.varied.as_slice() {
            [x, y, ..] => HeatMap::new(cost, x, y).map(|map| map.draw(format, look)),
            [x] => SweepCurve::new(cost, x).map(|curve| curve.draw(format, look)),
            [] => None,
        };
        let pictures = [
            ("sweep", "What was compared over the parameters", swept),
            ("pareto", "Cost against hit rate", Some(Pareto { trials: hits }.draw(format, look))),
            ("ranking", "Strategies from best to worst", Some(Ranking { trials: cost }.draw(format, look))),
        ];
        for (name, caption, bytes) in pictures {
            let Some(bytes) = bytes else { continue };
            let path = format!("plots/{name}.{}", format.extension());
            dir.write(&path, &bytes?)?;
            if format == PictureFormat::Svg {
                captions.push((caption.to_owned(), path));
            }
        }
    }
    Ok(captions)
}

fn requests(curve: &TokenCurve) -> usize {
    curve.series.iter().map(|s| s.points.len()).max().unwrap_or(0)
}

fn stop_mark(run: &RunRecord<'_>) -> Option<Mark> {
    let request = run.stopped_at_request?;
    Some(Mark { request, kind: MarkKind::Stop })
}

/// A session id as part of a file name.
pub fn file_name(id: &str) -> String {
    let safe = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.') { c } else { '_' };
    id.chars().map(safe).collect()
}
