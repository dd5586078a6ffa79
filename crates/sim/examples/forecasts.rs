//! Forecasts beside the oracle, perfect and disturbed: `cargo run --release -p tidefs-sim --example
//! forecasts [WORKFLOW [BOOT [TOLD]]]`. Every case of docs/REPRODUCTION.md, in its order.
//!
//! With `SEED=N` in the environment, workflow, partitions and what is told mixed are drawn from N in
//! place of 1; with `STORY=1`, the reconfigurations of each run are told below its row. With
//! `NODES=compute`, no other machines do: nodes bring 8 slots each, as in MemEFS.

use tidefs_control::Policy;
use tidefs_model::ByteSize;
use tidefs_sim::workflow::BuiltIn;
use tidefs_sim::{Disturbance, Setup, simulate};

const DISTURBANCES: [&str; 10] = [
    "1,1",
    "2,1",
    "0.5,1",
    "1,1.5",
    "1,0.667",
    "2,1.5",
    "2,0.667",
    "0.5,1.5",
    "0.5,0.667",
    "mixed:2,1.5",
];

fn main() {
    println!(
        "| workflow | boot, s | told | overhead, % | RUI, % | of the oracle's | reconfigurations |"
    );
    let only = std::env::args().nth(1);
    let nodes_compute = match std::env::var("NODES").as_deref() {
        Ok("compute") => true,
        Ok(other) => panic!("NODES={other} is not known; there is NODES=compute"),
        Err(_) => false,
    };
    let seed = std::env::var("SEED").map_or(1, |it| it.parse().expect("a number"));
    for built_in in [BuiltIn::Montage, BuiltIn::Blast, BuiltIn::Broadband, BuiltIn::CyberShake] {
        if only.as_ref().is_some_and(|only| built_in.name() != only) {
            continue;
        }
        let workflow = built_in.workflow(seed);
        let boot = std::env::args().nth(2).map(|text| text.parse::<f64>().expect("seconds"));
        let told_only = std::env::args().nth(3);
        for boot_seconds in [5.0, 30.0] {
            if boot.is_some_and(|boot| boot != boot_seconds) {
                continue;
            }
            let setup = |policy: &str, told: &str| Setup {
                policy: policy.parse::<Policy>().expect("a policy"),
                nodes_initial: match policy {
                    "static" => 64,
                    _ => 16,
                },
                nodes_max: 64,
                node_memory: ByteSize(20_000_000_000),
                lent: None,
                slots: 8,
                compute: (!nodes_compute).then_some(64),
                bandwidth: 1e9,
                boot_seconds,
                suspends: false,
                dump: None,
                disturbance: told.parse::<Disturbance>().expect("a disturbance"),
                seed,
            };
            let fixed = simulate(&workflow, &setup("static", "1,1")).expect("an end");
            let oracle = fixed.improvement_of_oracle(20_000_000_000);
            let row = |policy: &str, told: &str| {
                let run = simulate(&workflow, &setup(policy, told)).expect("an end");
                let improvement = run.improvement_over(&fixed);
                println!(
                    "| {} | {boot_seconds} | {policy} {told} | {:.2} | {:.1} | {:.4} | {} |",
                    built_in.name(),
                    100.0 * run.overhead_over(&fixed),
                    100.0 * improvement,
                    improvement / oracle,
                    run.reconfigurations.len(),
                );
                if std::env::var_os("STORY").is_some() {
                    for it in &run.reconfigurations {
                        println!(
                            "    {:.0} +{:.0} {} {} -> {}: {}",
                            it.started_at,
                            it.seconds,
                            it.kind,
                            it.nodes_before,
                            it.nodes_after,
                            it.reason
                        );
                    }
                    println!("   waited {:.0}", run.waited_seconds);
                }
            };
            println!(
                "| {} static {:.0} s, oracle {:.1} % |",
                built_in.name(),
                fixed.makespan_seconds,
                100.0 * oracle
            );
            if told_only.is_none() {
                row("nso+asi", "1,1");
            }
            for told in DISTURBANCES {
                if told_only.as_ref().is_some_and(|only| told != only) {
                    continue;
                }
                row("forecast", told);
            }
        }
    }
}
