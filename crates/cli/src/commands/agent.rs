//! `tidefs agent`: this host in a file system whose host has reached it, and says on standard input what is
//! wanted here. It ends with that.

use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, bail};

use tidefs_model::ByteSize;

use crate::agents::{FromAgent, Hello, Order, Ready, STAY, ToAgent, line, say_word};
use crate::join::{Host, JOINED, Reach, node_wanted};
use crate::lending::Place;
use crate::mount_point::{Missing, MountPoint};
use crate::own_log::{self, Course};
use crate::signals::Signals;
use crate::state::Base;
use crate::{lending, limits, preparation, privacy, remote_checks, scarcity, signals};

pub fn agent(state: Option<&Path>) -> anyhow::Result<()> {
    limits::raise_open_files();
    scarcity::serve();
    privacy::guard();
    let signals = Signals::catch().context("cannot catch signals")?;
    tell(&FromAgent::Hello(Hello::of_this_host()))?;
    let mut input = BufReader::new(io::stdin());
    // Whoever asked who this is may want no more.
    let Some(order) = line(&mut input)? else { return Ok(()) };
    let order = match serde_json::from_str::<ToAgent>(&order) {
        Ok(ToAgent::Join(order)) => *order,
        Ok(ToAgent::Look { memory_bytes }) => {
            let found = remote_checks::for_another(memory_bytes, state, input)?;
            return tell(&FromAgent::Found(found));
        }
        Err(_) => return Ok(()),
    };
    let place = Place::at(order.address);
    place.bind();
    let is_over = end_with(input, place.clone());
    match begin(&order, place, state) {
        Ok(host) => {
            let (directory, mount) = (host.directory().to_owned(), order.mount.clone());
            tell(&FromAgent::Ready(Ready { mount, directory }))?;
            let ended = host.serve(&signals, None, || is_over.load(Ordering::Relaxed));
            own_log::take(Course::Plain);
            if let Err(error) = &ended {
                // Whoever is told may be gone, too.
                let _ = tell(&FromAgent::Failed(format!("{error:#}")));
            }
            ended
        }
        Err(error) => {
            own_log::take(Course::Plain);
            let _ = tell(&FromAgent::Failed(format!("{error:#}")));
            Err(error)
        }
    }
}

fn begin(order: &Order, place: Place, state: Option<&Path>) -> anyhow::Result<Host> {
    if order.name != JOINED && !is_of_a_run(&order.name) {
        bail!("{:?} is no name of a file system", order.name);
    }
    let secret = lending::secret_of(&order.secret).context("the order has no secret")?;
    let base = Base::named(state)?;
    let point = MountPoint::check(&order.mount, Missing::Make)?;
    at_the_same_place(&point, &order.mount)?;
    preparation::mounting()?;
    let (memory, server) = node_wanted(order.memory_bytes.map(ByteSize))?;
    let mut host = Host::begin(Reach::new(place, secret)?, &base, &order.name)?;
    // The session has it from now on, also when the connection has ended by which this host was reached.
    own_log::take(Course::Carried);
    host.offer(memory, &server, true)?;
    host.mount(point, order.serving)?;
    Ok(host)
}

/// Programs are told one path for all hosts.
fn at_the_same_place(point: &MountPoint, wanted: &PathBuf) -> anyhow::Result<()> {
    if point.path != *wanted {
        let (path, wanted) = (point.path.display(), wanted.display());
        bail!("{wanted} leads to {path} here; choose a place that is the same on all hosts");
    }
    Ok(())
}

fn is_of_a_run(name: &str) -> bool {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || letter == '-';
    name.starts_with("run-") && name.chars().all(is_plain)
}

fn tell(word: &FromAgent) -> anyhow::Result<()> {
    say_word(&mut io::stdout(), word).context("whoever started this has gone")
}

fn is_stay(word: &str) -> bool {
    serde_json::from_str::<String>(word).is_ok_and(|word| word == STAY)
}

/// Another line ends this at once, unless it says that the end of the input means nothing; that has it give back what is
/// here.
fn end_with(mut input: impl BufRead + Send + 'static, place: Place) -> Arc<AtomicBool> {
    let is_over = Arc::new(AtomicBool::new(false));
    let over = Arc::clone(&is_over);
    std::thread::spawn(move || {
        let mut stays = false;
        let mut said = line(&mut input);
        while matches!(&said, Ok(Some(word)) if is_stay(word)) {
            stays = true;
            place.unbind();
            said = line(&mut input);
        }
        if let Ok(Some(_)) = said {
            over.store(true, Ordering::Relaxed);
        } else if stays {
            return;
        }
        signals::ask_to_stop();
    });
    is_over
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_here_stays_in_the_base() {
        assert!(is_of_a_run("run-12-0af3e"));
        for name in ["run-../x", "run-a/b", "elsewhere", ""] {
            assert!(!is_of_a_run(name), "{name}");
        }
    }
}
