//! The process of the manager: decides about the nodes that another process owns, until it is
//! killed. That process starts it, again and again if need be, with its order on standard input.

use std::os::unix::net::UnixListener;
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Context;
use tidefs_control::forecast::Pace;
use tidefs_control::{Answer, Refused, Request, Settings};
use tidefs_manager::{Claim, Handle, Journal, Manager, ManagerError, Parts};
use tidefs_valkey::{
    Admin, Guard, MoveOptions, Options, Pass, Secret, Successor, Timeouts, Valkey,
};

use crate::change_view::ChangeView;
use crate::control::CHANGE_WAIT;
use crate::live_workflow::{Told, Version};
use crate::nodes::{
    ClusterHands, Deciding, FromManager, Hope, LentNodes, ManagerView, Order, Steps, ToManager,
    Urgency, format,
};
use crate::state::{ClusterRecord, Paths, StripeKey};
use crate::wish::describe;
use crate::{foresight, launch, limits, lines, log_file, logging, privacy};

/// Ends only when it cannot go on; its starter knows what to do then.
pub fn manager() -> anyhow::Result<ExitCode> {
    let order: Order = launch::order()?;
    limits::raise_open_files();
    privacy::guard();
    let paths = Paths::new(order.directory.clone());
    if logging::is_kept() {
        log_file::goes_on(&paths);
    }
    let size = &order.size;
    let nodes = size.nodes.context("a manager without nodes")?;
    let settings = size.settings(nodes)?;
    let bytes_per_second = size.elasticity.move_rate;
    let options = MoveOptions { bytes_per_second, ..MoveOptions::default() };
    // A predecessor that was killed has left its socket.
    let _ = std::fs::remove_file(paths.manager());
    let listener = UnixListener::bind(paths.manager()).context("cannot listen")?;

    let (description, data) = ClusterRecord::read(&paths)?;
    let key = StripeKey::read(&paths)?;
    let store =
        Arc::new(Valkey::follow(ClusterRecord::roster(&paths), data.clone(), Options::default())?);
    let (steps, claim) = (Steps::from_environment(), order.claim.clone());
    let has_guests = size.provision.is_some();
    let owner = LentNodes { paths: paths.clone(), steps: steps.clone(), has_guests };
    let gives_way = |by: Claim| {
        let heard = owner.tell_outlived(by);
        heard.map_err(|failure| anyhow::anyhow!(failure.what)).map(|()| ExitCode::SUCCESS)
    };
    // Before the nodes end the connections of whoever has them. Where nobody can say, opening the journal does.
    if let Ok(Some(by)) = Journal::owner(&store)
        && by > claim
    {
        return gives_way(by);
    }
    let admin = Pass { secret: Secret::from_text(&order.secret), ..data };
    // Managers of several hosts may have the same process number.
    let number = getrandom::u64().context("no random numbers")?;
    let successor = Successor::new(&format!("{number:016x}"));
    // Where others may come, they may also succeed the owner.
    let deciding = match size.listen.is_some() {
        true => Deciding::as_owner_says(owner.clone()).context("the owner does not answer")?,
        false => Deciding::always(),
    };
    let guard = Guard::new(move || deciding.is_so_or_ends());
    let admin = Admin::succeed(&description, admin, Timeouts::default(), successor, guard)?;
    let admin = admin.with_head_room(settings.head_room);
    let urgency = Urgency::default();
    let lenders = urgency.clone();
    let admin = admin.hastened_while(move || lenders.is_a_lenders());
    let parts = Parts {
        hands: ClusterHands::new(
            admin,
            Arc::clone(&store),
            options,
            urgency.clone(),
            steps.clone(),
            format(key.map(|key| key.cipher)),
            order.age,
        ),
        provisioner: LentNodes { paths, steps, has_guests },
        store,
        clock: order.clock,
    };
    let (manager, handle) = Manager::new(parts, settings, size.elasticity.interval(&settings))?;
    let pace = Pace::after_start(order.start);
    let manager = match foresight::forecaster(&size.elasticity, nodes, None, pace)? {
        Some(forecaster) => manager.with_forecast(forecaster),
        None => manager,
    };
    let busy = || FromManager::Refused("too many requests are being served".to_owned());
    let following = Following { heard: Mutex::default(), pace };
    lines::serve(listener, busy, move |request| {
        answer(&handle, &settings, &urgency, &following, request)
    });
    match manager.of_owner(claim).run(&AtomicBool::new(false)) {
        Err(ManagerError::Outlived(by)) => return gives_way(by),
        ended => ended?,
    }
    Ok(ExitCode::SUCCESS)
}

/// What was heard of a workflow.
struct Following {
    heard: Mutex<Option<Version>>,
    pace: Pace,
}

impl Following {
    fn heard(&self) -> Option<Version> {
        *self.heard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn follow(&self, handle: &Handle, told: &Told) -> FromManager {
        let mut heard = self.heard.lock().unwrap_or_else(PoisonError::into_inner);
        // This process may be the second one that hears of a workflow: what it has seen is no other's.
        let anew = heard.is_some_and(|heard| heard.graph != told.version.graph);
        match handle.foresee(foresight::of_rest(&told.rest, self.pace), anew) {
            Ok(()) => {
                *heard = Some(told.version);
                FromManager::Followed
            }
            Err(error) => FromManager::Refused(error.to_string()),
        }
    }
}

fn answer(
    handle: &Handle,
    settings: &Settings,
    urgency: &Urgency,
    following: &Following,
    request: ToManager,
) -> FromManager {
    match request {
        ToManager::Look { known } => {
            let view = ManagerView::new(
                &handle.status(),
                handle.finished(known),
                handle.finished_left_out(),
            );
            FromManager::Seen(Box::new(ManagerView { follows: following.heard(), ..view }))
        }
        ToManager::Full { node } => {
            urgency.mark();
            FromManager::Room {
                hope: Hope::of(handle.alarm_full(node.and_then(|id| id.parse().ok()))),
            }
        }
        ToManager::Scale(nodes) => by_hand(handle, settings, Request::Scale(nodes)),
        ToManager::TakeOffered(nodes) => change(handle, Request::TakeOffered(nodes)),
        ToManager::Follow(told) => following.follow(handle, &told),
        ToManager::TakeIn => change(handle, Request::TakeIn),
        ToManager::GiveBack(id) => match id.parse() {
            Ok(node) => urgency.during(|| change(handle, Request::GiveBack(node))),
            Err(error) => FromManager::Refused(format!("{error}")),
        },
        ToManager::Drain(id) => match id.parse() {
            Ok(node) => by_hand(handle, settings, Request::Drain(node)),
            Err(error) => FromManager::Refused(format!("{error}")),
        },
    }
}

/// People are told when the policy may undo what they asked for.
fn by_hand(handle: &Handle, settings: &Settings, request: Request) -> FromManager {
    match change(handle, request) {
        FromManager::Changed(done) => FromManager::Changed(Box::new(done.under(settings))),
        answer => answer,
    }
}

fn change(handle: &Handle, request: Request) -> FromManager {
    let answered = handle.request(request).and_then(|ticket| ticket.wait(CHANGE_WAIT));
    match answered {
        Ok(Answer::NothingToDo) => {
            let nodes = handle.status().nodes.len() as u16;
            FromManager::Changed(Box::new(ChangeView::nothing(nodes)))
        }
        Ok(Answer::Refused(gone @ Refused::UnknownNode { .. })) => {
            FromManager::Gone(gone.to_string())
        }
        Ok(Answer::Refused(unseen @ Refused::NotObserved { .. })) => {
            FromManager::Unseen(unseen.to_string())
        }
        Ok(Answer::Refused(refused)) => FromManager::Refused(refused.to_string()),
        Ok(Answer::Finished(summary)) => match describe(&summary) {
            Ok(done) => FromManager::Changed(Box::new(done)),
            Err(error) => FromManager::Refused(format!("{error:#}")),
        },
        Err(error) => FromManager::Refused(error.to_string()),
    }
}
