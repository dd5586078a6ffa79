//! What the programs of this host ask of the file system: the control socket here, as where it runs.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::control::{self, Answer, CHANGE_WAIT, Request};
use crate::failure::Failure;
use crate::lending::{FromBorrower, FromHost, ToBorrower, ToHost};
use crate::mounting::ServedMount;
use crate::state::Paths;

use super::Reach;

/// As long as programs wait.
const ANSWER_WAIT: Duration = Duration::from_secs(60);

/// The mount that the agent serves itself, which others may take away.
pub type OwnMount = Arc<Mutex<Option<ServedMount>>>;

pub struct Relay {
    reach: Reach,
    paths: Paths,
    mount: OwnMount,
}

impl Relay {
    /// Answers for the rest of this process's life.
    pub fn serve(reach: Reach, paths: &Paths, mount: OwnMount) -> Result<(), Failure> {
        let listener = control::listen(paths)?;
        let relay = Relay { reach, paths: paths.clone(), mount };
        control::serve(listener, move |request| relay.answer(request));
        Ok(())
    }

    fn answer(&self, request: Request) -> Answer {
        match request {
            Request::Unmount(path) => self.unmount(&path),
            Request::Status => match self.ask(Request::Status) {
                Answer::Status(status) => {
                    let records = self.paths.mount_records().into_iter();
                    let mounts = records.map(|(_, record)| record.point.path).collect();
                    Answer::Status(Box::new(status.on_another_host(mounts)))
                }
                answer => answer,
            },
            Request::Join { mount } => {
                let answer = self.ask(Request::Join { mount });
                if let Answer::Account { secret, .. } = &answer {
                    self.reach.note_account(mount, secret.clone());
                }
                answer
            }
            Request::Left { mount } => {
                self.reach.forget_account(mount);
                self.ask(Request::Left { mount })
            }
            request => self.ask(request),
        }
    }

    fn unmount(&self, path: &std::path::Path) -> Answer {
        let mut own = self.mount.lock().unwrap_or_else(PoisonError::into_inner);
        match own.take_if(|mount| mount.is_at(path)).map(ServedMount::end) {
            Some(Ok(())) => Answer::Done,
            Some(Err(error)) => Answer::Refused(format!("{error:#}")),
            None => Answer::Refused(Failure::NotMounted(path.to_owned()).to_string()),
        }
    }

    fn ask(&self, request: Request) -> Answer {
        let moves_data = matches!(request, Request::Scale(_) | Request::Drain(_));
        let wait = if moves_data { CHANGE_WAIT } else { ANSWER_WAIT };
        let asked = self.reach.channel().and_then(|mut channel| {
            let (agent, request) = (self.reach.agent, Box::new(request));
            channel.say(&ToBorrower::Host(FromHost::Ask { agent, request }))?;
            channel.patience(wait)?;
            channel.hear()
        });
        match asked {
            Ok(FromBorrower::Host(ToHost::Answer(answer))) => *answer,
            Ok(FromBorrower::Refused(why)) => Answer::Refused(why),
            Ok(_) => Answer::Refused("the file system answers something else".to_owned()),
            Err(error) => Answer::Refused(format!(
                "the file system at {} cannot be asked: {error}",
                self.reach.place.address()
            )),
        }
    }
}
