//! Options that would change nothing beside the others that were given. Whoever gives one expects
//! something of it, so it is refused with the option that makes it idle, and with what to do.

use tidefs_control::Policy;

use crate::elasticity::{Elasticity, NODES_MAX, NodeRange, Placement};

/// An option without effect.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{option} has no effect {beside}; {advice}")]
pub struct WithoutEffect {
    pub option: String,
    /// The other option, and why.
    pub beside: String,
    pub advice: String,
}

/// What is asked for beside elasticity.
#[derive(Clone, Copy, Debug)]
pub struct Beside {
    pub nodes: NodeRange,
    /// Their number follows from a list of hosts.
    pub nodes_of_hosts: bool,
    /// Lenders may join.
    pub listens: bool,
}

/// Finds the first option without effect.
pub fn check(wishes: &Elasticity, beside: Beside) -> Result<(), WithoutEffect> {
    fixed_number(wishes, beside)?;
    policy(wishes, beside.nodes)?;
    one_node(wishes, beside)?;
    looks(wishes, beside.nodes)?;
    lenders(wishes, beside)?;
    bandwidths(wishes)
}

fn refuse(option: &str, beside: String, advice: String) -> Result<(), WithoutEffect> {
    Err(WithoutEffect { option: option.to_owned(), beside, advice })
}

/// Options that were given of those that say how nodes come.
fn of_growing(wishes: &Elasticity) -> Option<&'static str> {
    let given = [
        ("--scale-out-at", wishes.scale_out_at.is_some()),
        ("--scale-out-by", wishes.scale_out_by.is_some()),
        ("--scale-out-nodes", wishes.scale_out_nodes.is_some()),
        ("--scale-out-ahead", wishes.scale_out_ahead),
    ];
    given.into_iter().find(|(_, given)| *given).map(|(option, _)| option)
}

/// The same of those that say how nodes leave.
fn of_shrinking(wishes: &Elasticity) -> Option<&'static str> {
    let given = [
        ("--scale-in-at", wishes.scale_in_at.is_some()),
        ("--scale-in-by", wishes.scale_in_by.is_some()),
        ("--scale-in-nodes", wishes.scale_in_nodes.is_some()),
        ("--scale-in-fill", wishes.scale_in_fill.is_some()),
        ("--quiet-period", wishes.quiet_period.is_some()),
    ];
    given.into_iter().find(|(_, given)| *given).map(|(option, _)| option)
}

fn fixed_number(wishes: &Elasticity, beside: Beside) -> Result<(), WithoutEffect> {
    if beside.nodes.changes() {
        return Ok(());
    }
    let nodes = beside.nodes.min;
    let policy = wishes.policy.as_ref().filter(|name| name.trim() != "static");
    let policy = policy.map(|name| format!("--policy {name}"));
    let workflow = wishes.workflow.as_ref().map(|_| "--workflow".to_owned());
    let start = wishes.start.map(|_| "--start");
    let option = of_growing(wishes).or(of_shrinking(wishes)).or(start).map(str::to_owned);
    let Some(option) = policy.or(workflow).or(option) else { return Ok(()) };
    let beside = match beside.nodes_of_hosts {
        true => {
            format!("with --hosts or --host-commands alone, which gives {nodes} nodes and no more")
        }
        false => format!("with --nodes {nodes}, a fixed number"),
    };
    let (min, max) =
        if nodes < NODES_MAX { (nodes, (nodes * 2).min(NODES_MAX)) } else { (1, nodes) };
    let name = option.split(' ').next().unwrap_or_default();
    let advice = format!("give a range, such as --nodes {min}..{max}, or leave {name} out");
    refuse(&option, beside, advice)
}

fn policy(wishes: &Elasticity, nodes: NodeRange) -> Result<(), WithoutEffect> {
    let name = wishes.policy_name(nodes);
    let policy: Policy = name.parse().expect("checked when it was read");
    let join = |other: &str| match name {
        "static" => "nso+asi".to_owned(),
        name => format!("{name}+{other}"),
    };
    if let Some(option) = of_growing(wishes).filter(|_| policy.scale_out.is_none()) {
        let beside = format!("with --policy {name}, which never grows by itself");
        let advice =
            format!("choose one that does, such as {}, or leave {option} out", join("nso"));
        return refuse(option, beside, advice);
    }
    if let Some(option) = of_shrinking(wishes).filter(|_| policy.scale_in.is_none()) {
        let beside = format!("with --policy {name}, which never shrinks by itself");
        let advice =
            format!("choose one that does, such as {}, or leave {option} out", join("asi"));
        return refuse(option, beside, advice);
    }
    Ok(())
}

/// Nothing moves where there is one node for good.
fn one_node(wishes: &Elasticity, beside: Beside) -> Result<(), WithoutEffect> {
    if beside.nodes.max > 1 || beside.listens {
        return Ok(());
    }
    let given =
        [("--move-rate", wishes.move_rate.is_some()), ("--placement", wishes.placement.is_some())];
    let Some((option, _)) = given.into_iter().find(|(_, given)| *given) else { return Ok(()) };
    let beside = match beside.nodes_of_hosts {
        true => "with --hosts or --host-commands of one host, whose node holds everything",
        false => "with --nodes 1, which holds everything",
    };
    let advice = format!("give more nodes, such as --nodes 2, or leave {option} out");
    refuse(option, beside.to_owned(), advice)
}

/// Usage counts as low for as long as it was seen low.
fn looks(wishes: &Elasticity, nodes: NodeRange) -> Result<(), WithoutEffect> {
    let (Some(every), true) = (wishes.observe_every, nodes.changes()) else { return Ok(()) };
    let Some(quiet) = wishes.quiet_period.filter(|quiet| *quiet < every) else { return Ok(()) };
    let beside = format!("with --observe-every {}, which is longer", every.as_secs_f64());
    let advice = "give a longer one, or have nodes observed more often".to_owned();
    refuse(&format!("--quiet-period {}", quiet.as_secs_f64()), beside, advice)
}

fn lenders(wishes: &Elasticity, beside: Beside) -> Result<(), WithoutEffect> {
    if wishes.own_share.is_none() || beside.listens {
        return Ok(());
    }
    let without = "without --listen, for no lender can join".to_owned();
    let advice = "add --listen ADDRESS:PORT, or leave --own-share out".to_owned();
    refuse("--own-share", without, advice)
}

fn bandwidths(wishes: &Elasticity) -> Result<(), WithoutEffect> {
    if wishes.placement() == Placement::Bandwidth {
        return Ok(());
    }
    let given = [
        ("--bandwidth-window", wishes.bandwidth_window.is_some()),
        ("--bandwidth-drop", wishes.bandwidth_drop.is_some()),
    ];
    let Some((option, _)) = given.into_iter().find(|(_, given)| *given) else { return Ok(()) };
    let beside = match wishes.placement {
        Some(_) => "with --placement memory, for shares do not follow bandwidth then",
        None => "without --placement bandwidth, for shares follow memory then",
    };
    let advice = format!("give --placement bandwidth, or leave {option} out");
    refuse(option, beside.to_owned(), advice)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arguments::{Arguments, Command};
    use clap::Parser;

    /// As `run` is given the words.
    fn judged(words: &str) -> Result<(), WithoutEffect> {
        let words = ["tidefs", "run"].into_iter().chain(words.split(' ')).chain(["--", "true"]);
        let Command::Run(run) = Arguments::try_parse_from(words).expect("options").command else {
            panic!("run is another command");
        };
        let mut wishes = run.storage.elasticity;
        wishes.several_hosts = run.storage.host_commands.is_some();
        let nodes = run.storage.nodes.unwrap_or(NodeRange { min: 2, max: 2 });
        let nodes_of_hosts = run.storage.nodes.is_none();
        let listens = run.storage.listen.is_some();
        check(&wishes, Beside { nodes, nodes_of_hosts, listens })
    }

    #[test]
    fn options_without_effect_are_refused_with_both_names_and_what_to_do() {
        for (words, option, beside, advice) in [
            ("--nodes 3 --policy nso", "--policy nso", "--nodes 3", "--nodes 3..6"),
            ("--nodes 64 --policy asi", "--policy asi", "--nodes 64", "--nodes 1..64"),
            ("--nodes 4 --scale-in-at 30", "--scale-in-at", "--nodes 4", "--nodes 4..8"),
            (
                "--nodes 4 --scale-out-at 90",
                "--scale-out-at",
                "--nodes 4",
                "leave --scale-out-at out",
            ),
            ("--nodes 4 --start 3", "--start", "--nodes 4", "leave --start out"),
            ("--nodes 4 --quiet-period 3", "--quiet-period", "--nodes 4", "--nodes 4..8"),
            ("--nodes 4 --policy static --scale-out-by 9", "--scale-out-by", "--nodes 4", "4..8"),
            ("--nodes 4 --workflow w.json", "--workflow", "--nodes 4", "leave --workflow out"),
            ("--host-commands h --policy nso", "--policy nso", "--host-commands", "--nodes 2..4"),
            (
                "--nodes 1..4 --policy cso --scale-in-at 30",
                "--scale-in-at",
                "--policy cso",
                "cso+asi",
            ),
            (
                "--nodes 1..4 --policy cso --scale-in-by 30",
                "--scale-in-by",
                "--policy cso",
                "cso+asi",
            ),
            (
                "--nodes 1..4 --policy nso --scale-in-fill 30",
                "--scale-in-fill",
                "--policy nso",
                "nso+asi",
            ),
            (
                "--nodes 1..4 --policy aso --quiet-period 3",
                "--quiet-period",
                "--policy aso",
                "aso+asi",
            ),
            (
                "--nodes 1..4 --policy static --quiet-period 3",
                "--quiet-period",
                "static",
                "nso+asi",
            ),
            (
                "--nodes 1..4 --policy static --scale-out-at 90",
                "--scale-out-at",
                "static",
                "nso+asi",
            ),
            (
                "--nodes 1..4 --policy csi --scale-out-at 90",
                "--scale-out-at",
                "--policy csi",
                "csi+nso",
            ),
            (
                "--nodes 1..4 --policy asi --scale-out-by 90",
                "--scale-out-by",
                "--policy asi",
                "asi+nso",
            ),
            (
                "--nodes 1..4 --policy asi --scale-out-ahead",
                "--scale-out-ahead",
                "--policy asi",
                "asi+nso",
            ),
            ("--nodes 1 --move-rate 1MiB", "--move-rate", "--nodes 1", "--nodes 2"),
            ("--nodes 1 --placement bandwidth", "--placement", "--nodes 1", "--nodes 2"),
            ("--nodes 1..4 --quiet-period 3 --observe-every 5", "--quiet-period 3", "5", "longer"),
            ("--nodes 2 --own-share 0.5", "--own-share", "without --listen", "add --listen"),
            ("--nodes 2 --bandwidth-window 9", "--bandwidth-window", "--placement", "leave"),
            ("--nodes 2 --bandwidth-drop 9", "--bandwidth-drop", "--placement bandwidth", "leave"),
            (
                "--host-commands h --placement memory --bandwidth-drop 9",
                "--bandwidth-drop",
                "memory",
                "leave",
            ),
        ] {
            let refused = judged(words).expect_err(words);
            assert_eq!(refused.option, option, "{words}");
            let said = refused.to_string();
            assert!(refused.beside.contains(beside) && refused.advice.contains(advice), "{said}");
        }
    }

    #[test]
    fn options_that_have_an_effect_are_not() {
        for words in [
            "--nodes 4",
            "--nodes 4 --policy static",
            "--nodes 4 --move-rate 1MiB --placement bandwidth --bandwidth-window 9 --bandwidth-drop 9",
            "--nodes 1..4 --scale-in-at 30 --scale-in-by 9 --scale-in-fill 70 --quiet-period 3",
            "--nodes 1..4 --scale-out-at 90 --scale-out-by 50",
            "--nodes 1..4 --scale-out-ahead",
            "--nodes 1..4 --start 2 --scale-out-nodes 2 --scale-in-nodes 1",
            "--nodes 1..4 --policy forecast --workflow w.json --scale-out-at 90 --quiet-period 3",
            "--nodes 1..4 --policy static --move-rate 1MiB",
            "--nodes 1..4 --policy cso --scale-out-at 90 --observe-every 0.5",
            "--nodes 3 --observe-every 10",
            "--nodes 1 --listen 127.0.0.1:0 --own-share 0.5 --move-rate 1MiB",
            "--host-commands h --bandwidth-window 9 --bandwidth-drop 9",
        ] {
            assert_eq!(judged(words), Ok(()), "{words}");
        }
    }
}
