//! What Prometheus and its kin are told of a running file system, and what a page shows to people: over HTTP, to
//! whoever shows a token. The page has one of its own, since it names files; it is good for metrics as well.
//!
//! The values are those that the monitor saw last. A scrape asks no node, and however many scrapes there are,
//! the file system does nothing for them. Only sizes of directories are looked up in the mount.

mod exposition;
mod families;
mod http;
mod latency;
mod live;
mod page;
mod token;
mod tree;

use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, Weak};

use anyhow::Context;
use serde::{Deserialize, Serialize};

use crate::arguments;
use crate::failure::Failure;
use crate::metrics_view::MetricsView;
use crate::monitor::{Monitor, Observed};
use crate::state::Paths;
use crate::without_effect::WithoutEffect;
use exposition::Exposition;
use http::{Answer, Asked};
use token::Token;
use tree::{Tree, Untold};

/// What was asked for and has been checked.
#[derive(Debug, Serialize, Deserialize)]
pub struct Wanted {
    address: SocketAddr,
    /// An administrator's, with its file; `None`: one is to be made.
    token: Option<(Token, PathBuf)>,
}

/// `None`: no metrics are wanted.
pub fn check(options: &arguments::metrics::Metrics) -> Result<Option<Wanted>, Failure> {
    let file = options.metrics_token_file.as_ref();
    let Some(address) = options.metrics else {
        return file.map_or(Ok(None), |_| Err(without_metrics()));
    };
    let token = file.map(|path| {
        let unusable = |cause| Failure::MetricsTokenUnusable { path: path.clone(), cause };
        let absolute = std::path::absolute(path).map_err(|error| unusable(error.to_string()))?;
        Ok((Token::read(path).map_err(unusable)?, absolute))
    });
    Ok(Some(Wanted { address, token: token.transpose()? }))
}

fn without_metrics() -> Failure {
    Failure::WithoutEffect(WithoutEffect {
        option: "--metrics-token-file".to_owned(),
        beside: "without --metrics".to_owned(),
        advice: "give --metrics too, or leave it out".to_owned(),
    })
}

/// The address is taken. Whoever asks is answered when there is something to tell.
#[derive(Debug)]
pub struct Bound {
    listener: TcpListener,
    token: Option<(Token, PathBuf)>,
}

impl Wanted {
    /// Before anything is started, so that an address that cannot be had leaves nothing behind.
    pub fn bind(self) -> Result<Bound, Failure> {
        let Wanted { address, token } = self;
        let unbound = |cause| Failure::MetricsUnbound { address, cause };
        Ok(Bound { listener: TcpListener::bind(address).map_err(unbound)?, token })
    }
}

impl Bound {
    /// Answers for the rest of this process's life.
    pub fn serve(self, paths: &Paths) -> anyhow::Result<Served> {
        let (metrics, token_file) = match self.token {
            Some(given) => given,
            None => made(paths.metrics_token())?,
        };
        let (page, page_token_file) = made(paths.page_token())?;
        let rights = Rights { metrics, page };
        let address = self.listener.local_addr().context("no address for metrics")?;
        let seen = Arc::new(Seen::new());
        let told = Arc::clone(&seen);
        let rightful = rights.clone();
        let known = move |asked: &Asked| rightful.shown_by(asked).is_some();
        let answer = move |asked: &Asked| answer(asked, &rights, &told);
        http::serve(self.listener, known, answer).context("no threads for metrics")?;
        let (url, page) = (format!("http://{address}{METRICS}"), format!("http://{address}/"));
        let view = MetricsView { url, page, token_file, page_token_file, host: None };
        Ok(Served { seen, view })
    }
}

/// A new token in a file of the user's own.
fn made(path: PathBuf) -> anyhow::Result<(Token, PathBuf)> {
    let token = Token::draw()?;
    token.write(&path).map_err(|cause| Failure::StateUnusable { path: path.clone(), cause })?;
    Ok((token, path))
}

/// What lets in, and to what.
#[derive(Clone, Debug)]
struct Rights {
    metrics: Token,
    page: Token,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Right {
    /// To numbers.
    Metrics,
    /// To names of files and directories as well.
    Page,
}

impl Rights {
    fn shown_by(&self, asked: &Asked) -> Option<Right> {
        let shown = asked.authorization.as_deref()?;
        // Both are looked at, whichever it is.
        let (page, metrics) = (self.page.is_shown_by(shown), self.metrics.is_shown_by(shown));
        if page { Some(Right::Page) } else { metrics.then_some(Right::Metrics) }
    }
}

/// Unset: the file system is starting.
type Seen = OnceLock<Source>;

/// What is told of.
#[derive(Debug)]
struct Source {
    /// Gone: the file system has ended.
    observed: Weak<Mutex<Observed>>,
    tree: Tree,
}

#[derive(Debug)]
pub struct Served {
    seen: Arc<Seen>,
    pub view: MetricsView,
}

impl Served {
    /// What this monitor sees is told from now on, and what lies in this mount.
    pub fn tell_of(&self, monitor: &Monitor, mount: &Path) {
        // There is one monitor in a process.
        let _ = self.seen.set(Source { observed: monitor.observed(), tree: Tree::of(mount) });
    }
}

const METRICS: &str = "/metrics";
const LIVE: &str = "/live.json";
/// A directory of the mount stands behind it.
const TREE: &str = "/tree";

fn answer(asked: &Asked, rights: &Rights, seen: &Seen) -> Answer {
    let refusal = Answer::refusal;
    let page = page::file(&asked.path);
    let right = rights.shown_by(asked);
    if page.is_none() && right.is_none() {
        return unknown(asked);
    }
    if !["GET", "HEAD"].contains(&asked.method.as_str()) {
        let headers = "Allow: GET, HEAD\r\n";
        return Answer { headers, ..refusal("405 Method Not Allowed", "this can be read only") };
    }
    if let Some(page) = page {
        return page;
    }
    let directory = asked.path.strip_prefix(TREE).filter(|it| it.is_empty() || it.starts_with('/'));
    if directory.is_none() && ![METRICS, LIVE].contains(&asked.path.as_str()) {
        return refusal("404 Not Found", "metrics are at /metrics, and a page for people at /");
    }
    if right != Some(Right::Page) && asked.path != METRICS {
        let why = "this names files, and the token of metrics does not let in here: show that in the page_token_file \
                   that `tidefs status --json` names";
        return refusal("403 Forbidden", why);
    }
    let Some(Source { observed, tree }) = seen.get() else {
        return refusal("503 Service Unavailable", "the file system is starting");
    };
    let Some(observed) = observed.upgrade() else {
        return refusal("503 Service Unavailable", "the file system is stopping");
    };
    match directory {
        Some(directory) => listed(tree, directory),
        None if asked.path == LIVE => {
            told(JSON, live::json(&observed, &tree.mount().to_string_lossy()))
        }
        None => told(exposition::MEDIA, Exposition::of(observed)),
    }
}

const JSON: &str = "application/json";

fn unknown(asked: &Asked) -> Answer {
    let why = match asked.authorization {
        None => {
            "metrics need a token: send the header `Authorization: Bearer TOKEN`, with what is \
                     in the token_file that `tidefs status --json` names"
        }
        Some(_) => {
            "this is not the token of this file system: `tidefs status --json` names the \
                        token_file that has it"
        }
    };
    let headers = "WWW-Authenticate: Bearer realm=\"tidefs\"\r\n";
    Answer { headers, ..Answer::refusal("401 Unauthorized", why) }
}

fn told<E: ToString>(media: &'static str, body: Result<String, E>) -> Answer {
    match body {
        Ok(body) => Answer { status: "200 OK", headers: "", media, body },
        Err(error) => Answer::refusal("500 Internal Server Error", &error.to_string()),
    }
}

fn listed(tree: &Tree, directory: &str) -> Answer {
    let status = match tree.json(directory) {
        Ok(body) => return Answer { status: "200 OK", headers: "", media: JSON, body },
        Err(untold) => (untold_status(&untold), untold),
    };
    Answer::refusal(status.0, &status.1.to_string())
}

fn untold_status(untold: &Untold) -> &'static str {
    match untold {
        Untold::Missing => "404 Not Found",
        Untold::Busy | Untold::Silent => "503 Service Unavailable",
        Untold::Unreadable(_) => "500 Internal Server Error",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(method: &str, path: &str, authorization: Option<&str>) -> Asked {
        let authorization = authorization.map(|value| value.as_bytes().to_vec());
        Asked { method: method.to_owned(), path: path.to_owned(), authorization }
    }

    #[test]
    fn only_who_shows_the_token_is_told_anything() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        let shown = |path: &Path| format!("Bearer {}", std::fs::read_to_string(path).unwrap());
        let (page, _) = made(path.clone()).unwrap();
        let (metrics, metrics_path) = made(folder.path().join("of-metrics")).unwrap();
        let (shown, of_metrics) = (shown(&path), shown(&metrics_path));
        let rights = Rights { metrics, page };
        let seen = Seen::new();
        let status = |method: &str, path: &str, authorization: Option<&str>| {
            answer(&asked(method, path, authorization), &rights, &seen).status[..3].to_owned()
        };
        assert_eq!(status("GET", "/metrics", None), "401");
        assert_eq!(status("GET", "/other", Some("Bearer other")), "401");
        assert_eq!(status("GET", "/other", Some(&shown)), "404");
        assert_eq!(status("POST", "/metrics", Some(&shown)), "405");
        assert_eq!(status("GET", "/metrics", Some(&shown)), "503", "it is starting");
        let observed = Arc::new(Mutex::new(Observed::new()));
        let source = Source { observed: Arc::downgrade(&observed), tree: Tree::of(folder.path()) };
        seen.set(source).unwrap();
        for path in ["/metrics", "/live.json", "/tree", "/tree/"] {
            assert_eq!(status("GET", path, Some(&shown)), "200", "{path}");
            assert_eq!(status("GET", path, None), "401", "{path}");
            let names_files = path != "/metrics";
            let expected = if names_files { "403" } else { "200" };
            assert_eq!(status("GET", path, Some(&of_metrics)), expected, "{path}");
        }
        assert_eq!(status("GET", "/other", Some(&of_metrics)), "404");
        assert_eq!(status("GET", "/tree/none", Some(&shown)), "404");
        assert_eq!(status("GET", "/trees", Some(&shown)), "404");
        assert_eq!(
            (status("GET", "/", None), status("POST", "/", None)),
            ("200".into(), "405".into())
        );
        drop(observed);
        assert_eq!(status("GET", "/metrics", Some(&shown)), "503", "it has ended");
    }

    #[test]
    fn a_token_without_metrics_and_an_address_that_is_taken_are_refused() {
        let options = |metrics, file: Option<&str>| arguments::metrics::Metrics {
            metrics,
            metrics_token_file: file.map(PathBuf::from),
        };
        assert!(check(&options(None, None)).unwrap().is_none());
        let refused = check(&options(None, Some("/t"))).unwrap_err();
        assert!(matches!(refused, Failure::WithoutEffect(_)), "{refused}");
        let free = Some("127.0.0.1:0".parse().unwrap());
        let refused = check(&options(free, Some("/nowhere/t"))).unwrap_err();
        assert!(matches!(refused, Failure::MetricsTokenUnusable { .. }), "{refused}");
        let taken = check(&options(free, None)).unwrap().unwrap().bind().unwrap();
        let address = taken.listener.local_addr().unwrap();
        let refused = check(&options(Some(address), None)).unwrap().unwrap().bind().unwrap_err();
        assert!(refused.to_string().contains(&address.to_string()), "{refused}");
    }
}
