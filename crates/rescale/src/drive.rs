//! Carries a rescaling out: each callback on a thread of its own, since any of them may hang.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender, SyncSender};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Duration;

use crate::call::{Answer, Call, CallId};
use crate::outcome::{Outcome, Progress};
use crate::plan::{Change, Refused};
use crate::rescaling::Rescaling;
use crate::service::{Failure, Service};
use crate::settings::Settings;

/// How often somebody is told how far it is.
const BETWEEN_PROGRESS: Duration = Duration::from_millis(50);

/// Starts servers, moves buckets and stops servers until all is as `change` says, or cannot be.
///
/// `clock` says the time since any moment; what may take so and so long is measured by it. Buckets are in use
/// meanwhile as far as the service allows that: a bucket is at its old place until its move is confirmed by
/// the inventory. Nothing was done where this is refused; otherwise the outcome says what is not as it was
/// asked for.
///
/// A callback that hangs keeps its thread, and the service, for as long as it hangs
/// ([`Outcome::calls_running`]).
pub fn rescale(
    service: Arc<dyn Service>,
    change: Change,
    settings: Settings,
    clock: &dyn Fn() -> Duration,
) -> Result<Outcome, Refused> {
    let mut rescaling = Rescaling::new(change, settings, clock());
    let (answers, answered) = mpsc::channel();
    let told = tell(Arc::clone(&service));
    let mut told_at: Option<Duration> = None;
    loop {
        for (id, call) in rescaling.next(clock()) {
            begin(&service, id, call, &answers);
        }
        let now = clock();
        if told_at.is_none_or(|at| now >= at.saturating_add(BETWEEN_PROGRESS)) {
            // Whoever is slow to listen misses some.
            let _ = told.progress.try_send(rescaling.progress());
            told_at = Some(now);
        }
        if let Some(result) = rescaling.result() {
            told.end(rescaling.progress());
            return result;
        }
        let wake_at = rescaling.wake_at();
        let wait = wake_at.map_or(Duration::MAX, |at| at.saturating_sub(clock()));
        wait_for(&answered, wait, |id, answer| rescaling.returned(clock(), id, answer));
    }
}

/// Takes in what came, all of it.
fn wait_for(
    answered: &Receiver<(CallId, Answer)>,
    wait: Duration,
    mut take: impl FnMut(CallId, Answer),
) {
    match answered.recv_timeout(wait) {
        Ok((id, answer)) => take(id, answer),
        Err(RecvTimeoutError::Timeout) => {}
        Err(RecvTimeoutError::Disconnected) => unreachable!("a sender is kept"),
    }
    answered.try_iter().for_each(|(id, answer)| take(id, answer));
}

fn begin(service: &Arc<dyn Service>, id: CallId, call: Call, answers: &Sender<(CallId, Answer)>) {
    let (service, theirs) = (Arc::clone(service), answers.clone());
    let kind = call.clone();
    let begun = thread::Builder::new().name("rescale".to_owned()).spawn(move || {
        let answer = answer(service.as_ref(), &call);
        // Let go of before the answer: who has it may rely on nobody using the service for this call.
        drop(service);
        // Nobody listens any more to what hung for long.
        let _ = theirs.send((id, answer));
    });
    if let Err(error) = begun {
        let answer = failed(&kind, format!("there is no thread for it: {error}"));
        let _ = answers.send((id, answer));
    }
}

fn answer(service: &dyn Service, call: &Call) -> Answer {
    match catch_unwind(AssertUnwindSafe(|| ask(service, call))) {
        Ok(answer) => answer,
        Err(panic) => {
            let words = panic.downcast_ref::<&str>().map(|words| (*words).to_owned());
            let words = words.or_else(|| panic.downcast_ref::<String>().cloned());
            failed(call, format!("it panicked: {}", words.unwrap_or_default()))
        }
    }
}

fn ask(service: &dyn Service, call: &Call) -> Answer {
    let said = |answer: Result<(), Failure>| Answer::Done(answer.map_err(|why| why.to_string()));
    match call {
        Call::Inventory => Answer::Inventory(service.inventory().map_err(|why| why.to_string())),
        Call::Plan(question) => Answer::Plan(Box::new(question.answer())),
        Call::Start { server } => said(service.start(server)),
        Call::Move { bucket, from, to } => said(service.move_bucket(bucket, from, to)),
        Call::Stop { server } => said(service.stop(server)),
    }
}

fn failed(call: &Call, why: String) -> Answer {
    match call {
        Call::Inventory => Answer::Inventory(Err(why)),
        Call::Plan(_) => Answer::Plan(Box::new(Err(Refused::Planner { why }))),
        _ => Answer::Done(Err(why)),
    }
}

/// The thread that tells the service how far it is; nobody waits for it but at the end, and then not long.
struct Told {
    progress: SyncSender<Progress>,
    last: Arc<OnceLock<Progress>>,
    over: Receiver<()>,
}

/// Who is told of progress may hang as well.
const LAST_WORD_WITHIN: Duration = Duration::from_secs(1);

fn tell(service: Arc<dyn Service>) -> Told {
    let (progress, news) = mpsc::sync_channel::<Progress>(1);
    let (done, over) = mpsc::channel();
    let last = Arc::new(OnceLock::new());
    let the_last: Arc<OnceLock<Progress>> = Arc::clone(&last);
    let thread = thread::Builder::new().name("rescale-progress".to_owned());
    // Without a thread nobody is told, and all else goes on.
    let _ = thread.spawn(move || {
        let at_last = std::iter::from_fn(|| the_last.get().copied()).take(1);
        for progress in news.into_iter().chain(at_last) {
            let _ = catch_unwind(AssertUnwindSafe(|| service.progress(&progress)));
        }
        drop(service);
        let _ = done.send(());
    });
    Told { progress, last, over }
}

impl Told {
    fn end(self, last: Progress) {
        self.last.get_or_init(|| last);
        drop(self.progress);
        let _ = self.over.recv_timeout(LAST_WORD_WITHIN);
    }
}
