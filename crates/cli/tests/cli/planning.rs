//! `tidefs plan` and `tidefs sim`: answers that programs can read, the same every time, and bad input
//! that is refused with the item that is wrong.

use std::fs;

use serde_json::Value;

use crate::world::{Ran, World};

fn json(ran: Ran) -> Value {
    let ran = ran.succeeded();
    serde_json::from_str(&ran.stdout).expect("JSON")
}

#[test]
fn a_plan_is_explained_and_is_the_same_every_time() {
    let Some(world) = World::new() else { return };
    let words = ["plan", "--nodes", "6", "--commission", "2", "--node-memory", "1GiB", "--json"];
    let first = json(world.run(words));
    assert_eq!(first, json(world.run(words)));
    let nodes = first["nodes"].as_array().expect("nodes");
    assert_eq!(nodes.len(), 8);
    for node in &nodes[6..] {
        assert_eq!(node["partitions_before"], 0);
        assert!(node["received_bytes"].as_u64() > Some(0), "{node}");
    }
    let figure = |key: &str| first["after"][key].as_f64().expect("a figure");
    assert!(figure("load_balance") < 1.02 && figure("data_balance") < 1.02, "{}", first["after"]);
    let moves = first["moves"].as_array().expect("moves").len() as u64;
    assert_eq!(first["partitions_moved"].as_u64(), Some(moves));
    let words = world.run(["plan", "--nodes", "4", "--decommission", "1"]).succeeded().stdout;
    for part in ["leaves, so everything goes", "at full bandwidth", "any plan that ends even"] {
        assert!(words.contains(part), "{words}");
    }
    world.is_as_before();
}

#[test]
fn an_inventory_is_read_and_what_is_wrong_with_it_is_named() {
    let Some(mut world) = World::new() else { return };
    let file = |nodes: &str, partition: &str| {
        let partitions = vec![partition; 2_048].join(",\n");
        format!("{{\"nodes\": [{nodes}],\n\"partitions\": [{partitions}]}}")
    };
    let nodes = r#"{"name": "a", "memory_capacity_bytes": 1000000000},
        {"name": "b", "memory_capacity_bytes": 1000000000}"#;
    let sound = r#"{"node": "a", "bytes": 100000}"#;
    let victims = nodes.replace("{\"name\"", "{\"class\": \"victim\", \"name\"");
    let write = |name: &str, text: String| fs::write(world.work().join(name), text).unwrap();
    write("sound.json", file(nodes, sound));
    write("broken.json", file(nodes, sound).replacen("[{", "[{{", 1));
    write("negative.json", file(nodes, r#"{"node": "a", "bytes": -1}"#));
    write("stranger.json", file(nodes, r#"{"node": "c", "bytes": 1}"#));
    let of_tidefs = |text: String| text.replacen('{', "{\"metadata_partitions\": 1024, ", 1);
    write("victims.json", of_tidefs(file(&victims, sound)));
    write("service.json", file(&victims, sound));
    let slow =
        nodes.replacen("1000000000", "1000000000, \"bandwidth_bytes_per_second\": 1e-300", 1);
    write("slow.json", file(&slow, sound));
    let used = nodes.replacen("1000000000", "1000000000, \"memory_used_bytes\": 5000000000", 1);
    write("used.json", file(&used, sound));
    write("full.json", file(nodes, r#"{"node": "a", "bytes": 1000000}"#));
    world.note();
    let plan = json(world.run(["plan", "sound.json", "--json"]));
    let taken = plan["nodes"][1]["partitions_after"].as_u64().expect("a number");
    // Another service's first buckets are no metadata: they may lie on any node.
    let service = json(world.run(["plan", "service.json", "--json"]));
    let spread = service["nodes"][1]["partitions_after"].as_u64().expect("a number");
    assert!((1_000..=1_050).contains(&spread), "{}", service["nodes"]);
    assert!((1_000..=1_050).contains(&taken), "{}", plan["nodes"]);
    for (words, part) in [
        (&["plan", "none.json"][..], "cannot read none.json"),
        (&["plan", "broken.json"], "line 1"),
        (&["plan", "negative.json"], "line 3"),
        (&["plan", "stranger.json"], "\"c\", which is not among the nodes"),
        (&["plan", "victims.json"], "no node of the class own"),
        (&["plan", "full.json"], "node \"a\" holds"),
        (&["plan", "sound.json", "--leave", "z"], "no node \"z\""),
        (&["plan", "sound.json", "--leave", "a", "--leave", "b"], "no node would be left"),
        (&["plan", "sound.json", "--leave", "a", "--deadline", "0.001"], "give more time"),
        (&["plan", "--nodes", "3", "--decommission", "3"], "at least one must stay"),
        (&["plan", "--strategy", "all"], "is not a strategy"),
        (&["plan", "--own-share", "1.5"], "from 0 (all of it on victim nodes) to 1"),
        (&["plan", "--node-memory", "1KiB"], "1 KiB a node is too little"),
        (&["plan", "slow.json", "--leave", "a", "--deadline", "9"], "bandwidth of node \"a\""),
        (&["plan", "used.json"], "\"a\" uses"),
        (&["plan", "bench", "--servers", "4"], "--commission"),
        (&["plan", "bench", "--servers", "4", "--decommission", "4"], "at least one must stay"),
    ] {
        world.run(words).refused(2, &[part]);
    }
    world.is_as_before();
}

#[test]
fn a_bench_has_quartiles_and_a_picture() {
    let Some(mut world) = World::new() else { return };
    let bench = json(world.run([
        "plan",
        "bench",
        "--servers",
        "8",
        "--commission",
        "4",
        "--buckets",
        "512",
        "--warmup",
        "2",
        "--runs",
        "3",
        "--strategy",
        "ldt",
        "--strategy",
        "dt",
        "--json",
        "--svg",
        "boxes.svg",
    ]));
    let strategies = bench["strategies"].as_array().expect("strategies");
    for (evaluated, name) in strategies.iter().zip(["ldt", "dt"]) {
        assert_eq!(evaluated["strategy"], name);
        for figure in ["plan_ms", "load_balance", "data_balance", "duration_ratio"] {
            let five = ["min", "p25", "p50", "p75", "max"];
            let five = five.map(|key| evaluated[figure][key].as_f64().expect("a number"));
            assert!(five.is_sorted() && five[0] > 0.0, "{name}, {figure}: {five:?}");
        }
    }
    // Five quantities with a box for each strategy.
    let picture = fs::read_to_string(world.work().join("boxes.svg")).unwrap();
    for strategy in [">ldt<", ">dt<"] {
        assert_eq!(picture.matches(strategy).count(), 5, "{picture}");
    }
    world.note();
    world.is_as_before();
}

/// Six tasks in a row of three pairs, half a gigabyte each.
fn workflow(change: impl Fn(String) -> String) -> String {
    let task = |at: usize| {
        let parents = if at < 2 { String::new() } else { format!("\"t{}\"", at - 2) };
        let input = if at < 2 { "in".to_owned() } else { format!("f{}", at - 2) };
        format!(
            "{{\"name\": \"stage{}\", \"id\": \"t{at}\", \"parents\": [{parents}], \
             \"inputFiles\": [\"{input}\"], \"outputFiles\": [\"f{at}\"]}}",
            at / 2
        )
    };
    let tasks: Vec<_> = (0..6).map(task).collect();
    let files: Vec<_> = (0..6)
        .map(|at| format!("{{\"id\": \"f{at}\", \"sizeInBytes\": 500000000}}"))
        .chain([r#"{"id": "in", "sizeInBytes": 1000}"#.to_owned()])
        .collect();
    let ran: Vec<_> =
        (0..6).map(|at| format!("{{\"id\": \"t{at}\", \"runtimeInSeconds\": 30}}")).collect();
    change(format!(
        "{{\"name\": \"pairs\", \"workflow\": {{\"specification\": {{\n\"tasks\": [{}],\n\
         \"files\": [{}]}},\n\"execution\": {{\"tasks\": [{}]}}}}}}\n",
        tasks.join(",\n"),
        files.join(",\n"),
        ran.join(",\n")
    ))
}

#[test]
fn a_workflow_from_a_file_is_simulated_and_bad_ones_are_refused() {
    let Some(mut world) = World::new() else { return };
    let write = |name: &str, text: String| fs::write(world.work().join(name), text).unwrap();
    write("pairs.json", workflow(|text| text));
    write("broken.json", workflow(|text| text.replacen("},\n", "}\n", 1)));
    write(
        "circle.json",
        workflow(|text| text.replacen("\"parents\": []", "\"parents\": [\"t5\"]", 2)),
    );
    write("nobody.json", workflow(|text| text.replacen("[\"f0\"]}", "[\"made\"]}", 1)));
    write("negative.json", workflow(|text| text.replacen("500000000", "-1", 1)));
    let ran = |seconds: &str| {
        let stated = format!("\"runtimeInSeconds\": {seconds}");
        workflow(|text| text.replacen("\"runtimeInSeconds\": 30", &stated, 1))
    };
    write("backwards.json", ran("-30"));
    write("endless.json", ran("1000000000"));
    write("huge.json", workflow(|text| text.replacen("500000000", "1e30", 1)));
    write("all.json", workflow(|text| text.replace("500000000", "1e18")));
    let sim = |file: &'static str, most: &'static str| {
        ["sim", "--workflow", file, "--policy", "nso", "--nodes", most, "--node-memory", "1GB"]
    };
    let run = || world.run(sim("pairs.json", "1..4").into_iter().chain(["--json"]));
    let (first, second) = (run().succeeded().stdout, run().succeeded().stdout);
    assert_eq!(first, second);
    let line = &serde_json::from_str::<Value>(&first).unwrap()["policies"][0];
    assert!(line["makespan_seconds"].as_f64() > Some(90.0), "{line}");
    assert!(line["nodes_most"].as_u64() > Some(1), "{line}");
    let from_three =
        world.run(sim("pairs.json", "1..4").into_iter().chain(["--json", "--start", "3"]));
    let from_three: Value = serde_json::from_str(&from_three.succeeded().stdout).unwrap();
    assert!(from_three["policies"][0]["nodes_most"].as_u64() >= Some(3), "{from_three}");
    let ran = world.run(sim("pairs.json", "1..4").into_iter().chain(["--report", "out"]));
    ran.succeeded();
    for (file, part) in [
        ("index.html", "nso"),
        ("sim.json", "nso"),
        ("nso/report.html", "nso"),
        ("nso/timeline.svg", "</svg>"),
    ] {
        let text = fs::read_to_string(world.work().join("out").join(file)).expect(file);
        assert!(text.contains(part), "{file}");
    }
    for (words, part) in [
        (sim("broken.json", "1..4"), "line 3"),
        (sim("circle.json", "1..4"), "waits for itself"),
        (sim("nobody.json", "1..4"), "\"made\", which is not among the files"),
        (sim("negative.json", "1..4"), "\"f0\" has a size of -1"),
        (sim("pairs.json", "1..1"), "the data do not fit"),
        (sim("mosaic", "1..4"), "\"mosaic\" is not a workflow"),
        (sim("backwards.json", "1..4"), "\"t0\" ran for -30 s"),
        (sim("endless.json", "1..4"), "\"t0\" ran for 1000000000 s"),
        (sim("huge.json", "1..4"), "\"f0\" has a size of 1000000000000000000000000000000"),
        (sim("all.json", "1..4"), "all files together have"),
    ] {
        world.run(words).refused(2, &[part]);
    }
    for (option, part) in [("--bandwidth", "more than 0"), ("--dump", "more than 0")] {
        world.run(["sim", "--workflow", "pairs.json", option, "0"]).refused(2, &[part]);
    }
    let outside = sim("pairs.json", "2..4").into_iter().chain(["--start", "1"]);
    world.run(outside).refused(2, &["1 nodes to start with are not within 2..4"]);
    let beside = ["sim", "--scenario", "clouds", "--policy", "nso"];
    world.run(beside).refused(2, &["cannot be used with"]);
    world.run(["sim", "--scenario", "mosaic"]).refused(2, &["there are memefs, table-3.2"]);
    world.run(["sim"]).refused(2, &["--workflow"]);
    let clouds = || world.run(["sim", "--scenario", "clouds", "--json"]).succeeded().stdout;
    let told = clouds();
    assert_eq!(told, clouds());
    let figures = serde_json::from_str::<Value>(&told).unwrap()["figures"].clone();
    assert_eq!(figures.as_array().map(Vec::len), Some(8), "{figures}");
    world.note();
    world.is_as_before();
}
