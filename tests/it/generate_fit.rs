//! A profile comes back from its own sessions.

use ctxsim::generate::fit::{Fitted, compare, fit};
use ctxsim::generate::{Profile, session};
use ctxsim::session::Session;

fn sessions(name: &str, n: u64, set: &[(&str, &str)]) -> (Profile, Vec<Session>) {
    let mut profile = Profile::load(name).expect("built in");
    set.iter().for_each(|(key, value)| profile.set(key, value).expect("a value"));
    let sessions = (0..n).map(|i| session(&profile, 11, i)).collect();
    (profile, sessions)
}

fn fitted(sessions: &[Session], holdout: u64) -> Fitted {
    let base = Profile::load("interactive-coding").expect("built in");
    fit(&sessions.iter().collect::<Vec<_>>(), &base, holdout, 0).expect("sessions")
}

fn ks(fitted: &Fitted, name: &str) -> f64 {
    fitted.rows.iter().find(|row| row.name == name).and_then(|row| row.ks).expect("compared")
}

#[test]
fn a_profile_comes_back_from_its_own_sessions() {
    let (truth, sessions) =
        sessions("interactive-coding", 300, &[("turns", "0.5: 1 | 0.5: 1 + ln(0.7, 0.8)")]);
    let fitted = fitted(&sessions, 300_000);
    assert_eq!(fitted.training_sessions + fitted.held_out_sessions, 300);
    assert!((70..=110).contains(&fitted.held_out_sessions));
    for (name, most) in [
        ("turns", 0.15),
        ("steps_per_turn", 0.12),
        ("human_wait_s", 0.12),
        ("tool_latency_s", 0.05),
        ("generation_s", 0.04),
        ("result_tokens", 0.05),
        ("output_tokens", 0.04),
        ("calls_per_step", 0.02),
        ("thinking_chance", 0.03),
        ("thinking_share", 0.1),
        ("density", 0.05),
        ("error_chance", 0.02),
    ] {
        let distance = ks(&fitted, name);
        assert!(distance <= most, "{name}: {distance}");
    }
    let value = |name: &str| fitted.profile.param(name).expect("listed").value.to_string();
    assert_eq!((value("tools_tokens"), value("image_chance")), ("28800".to_owned(), "0".to_owned()));
    assert_eq!(fitted.profile.tools[0].0, "Bash");
    assert_eq!(fitted.profile.model, truth.model);
}

#[test]
fn another_profile_is_told_apart() {
    let (_, coding) = sessions("interactive-coding", 60, &[("turns", "2")]);
    let (_, thinking) = sessions("thinking-heavy", 60, &[("turns", "2")]);
    let of_coding = fitted(&coding, 300_000);
    let rows = compare(&of_coding.profile, &thinking.iter().collect::<Vec<_>>(), 0);
    let far = |name: &str| rows.iter().find(|row| row.name == name).and_then(|row| row.ks).expect("compared");
    assert!(far("output_tokens") > 0.4 && far("thinking_chance") > 0.4 && far("generation_s") > 0.4);
    assert!(far("result_tokens") < 0.1);
}

#[test]
fn the_written_profile_is_the_fitted_one() {
    let (_, sessions) = sessions("image-heavy", 12, &[("turns", "3")]);
    let fitted = fitted(&sessions, 300_000);
    let read = Profile::parse(&fitted.toml(), "fitted.toml").expect("a profile");
    assert_eq!(read.params, fitted.profile.params);
    assert_eq!((&read.tools, &read.model), (&fitted.profile.tools, &fitted.profile.model));
    assert_eq!(session(&read, 5, 0), session(&fitted.profile, 5, 0));
}

#[test]
fn few_sessions_are_split_all_the_same_and_one_is_its_own_measure() {
    let (_, sessions) = sessions("chat", 2, &[("turns", "5")]);
    assert_eq!(fitted(&sessions, 300_000).held_out_sessions, 1);
    assert_eq!(fitted(&sessions, 0).held_out_sessions, 0);
    let alone = fitted(&sessions[..1], 300_000);
    assert_eq!((alone.training_sessions, alone.held_out_sessions), (1, 0));
    assert!(alone.toml().contains("on the same."));
    let base = Profile::load("chat").expect("built in");
    assert!(fit(&[], &base, 0, 0).is_err());
}
