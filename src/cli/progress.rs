//! Progress and Ctrl-C: the only clock and the only signal handler.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use ctxsim::sweep::Control;
use indicatif::{HumanCount, ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};

use super::exit;
use super::output::Terminal;

/// Work shorter than this shows no bar.
const PATIENCE: Duration = Duration::from_secs(1);
const DRAW_EVERY: Duration = Duration::from_millis(100);

/// Makes the control of a command, and lets Ctrl-C stop it: once ends after the work at hand and keeps
/// what is done, twice ends at once.
pub fn control(terminal: &Terminal) -> Arc<Control> {
    let control = Arc::new(Control::default());
    let handler = Arc::clone(&control);
    let installed = ctrlc::set_handler(move || {
        if handler.stop.swap(true, Ordering::Relaxed) {
            std::process::exit(i32::from(exit::INTERRUPTED));
        }
        super::output::say("ctxsim: stopping after what is being worked on; press again to stop at once");
    });
    if installed.is_err() {
        terminal.detail("Ctrl-C cannot be caught here; it ends ctxsim at once");
    }
    control
}

/// A bar on stderr that follows [`Control::done`] until it is dropped.
pub struct Progress {
    finished: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Progress {
    /// Starts counting `total` units of `what`, or what [`Control::total`] becomes; draws nothing where there is no
    /// terminal.
    pub fn start(terminal: &Terminal, control: &Arc<Control>, what: &'static str, total: u64) -> Progress {
        control.done.store(0, Ordering::Relaxed);
        control.total.store(total, Ordering::Relaxed);
        let finished = Arc::new(AtomicBool::new(false));
        let thread = terminal.progress.then(|| {
            let (finished, control) = (Arc::clone(&finished), Arc::clone(control));
            std::thread::spawn(move || draw(&finished, &control, what))
        });
        Progress { finished, thread }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.finished.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // A bar that could not be drawn is no reason to fail.
            let _ = thread.join();
        }
    }
}

fn draw(finished: &AtomicBool, control: &Control, what: &'static str) {
    std::thread::park_timeout(PATIENCE);
    if finished.load(Ordering::Relaxed) {
        return;
    }
    // Hidden until it has something to show: what it draws first would be a bar at nothing.
    let bar = ProgressBar::with_draw_target(Some(0), ProgressDrawTarget::hidden());
    if let Ok(style) =
        ProgressStyle::with_template("{msg} {wide_bar} {human_pos}/{human_len}, {rate}, {eta} left")
    {
        bar.set_style(style.with_key("rate", write_rate));
    }
    bar.set_message(what);
    while !finished.load(Ordering::Relaxed) {
        let (done, total) = (control.done.load(Ordering::Relaxed), control.total.load(Ordering::Relaxed));
        // How much there is may be a guess.
        bar.set_length(total.max(done));
        bar.set_position(done);
        if bar.is_hidden() {
            bar.set_draw_target(ProgressDrawTarget::stderr());
        }
        std::thread::park_timeout(DRAW_EVERY);
    }
    bar.finish_and_clear();
}

/// Units a second, whole.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a rate is not negative, and one beyond 2^64 is shown as that"
)]
fn write_rate(state: &ProgressState, out: &mut dyn fmt::Write) {
    // What cannot be written is not drawn.
    let _ = write!(out, "{}/s", HumanCount(state.per_sec() as u64));
}
