//! Circles between the top-level modules of a crate: there are no more than are counted here.
//!
//! A module's file names another module by a path that begins with `crate`, `self` or `super`, or by a
//! name that the crate's root exports. Tests do not count, nor does what a macro is given.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use syn::visit::{self, Visit};
use syn::{Attribute, Item, UseTree};

/// Crates, and how many of their top-level modules lie in circles. A number only falls.
const IN_CIRCLES: [(&str, usize); 17] = [
    ("cli", 24),
    ("control", 0),
    ("fs", 31),
    ("fuse", 0),
    ("manager", 0),
    ("model", 0),
    ("oracle", 0),
    ("report", 0),
    ("rescale", 0),
    ("rescale-c", 0),
    ("sealed", 0),
    ("session", 7),
    ("sim", 0),
    ("stage", 0),
    ("store", 0),
    ("valkey", 25),
    ("fuzz", 0),
];

type Names = Vec<String>;

/// What the files of a crate say of its modules.
#[derive(Default)]
struct House {
    /// Names that the root exports, and the top-level module that each comes from.
    exports: BTreeMap<String, String>,
    modules: BTreeSet<String>,
    /// Who uses whom.
    uses: BTreeMap<String, BTreeSet<String>>,
}

/// The paths that one file names, from the crate's root on.
struct Named {
    /// The module that is being read.
    at: Names,
    paths: Vec<Names>,
}

impl Named {
    fn name(&mut self, path: Names) {
        let mut rest = path.iter().map(String::as_str).peekable();
        let mut from = match rest.peek() {
            Some(&"crate") => Names::new(),
            Some(&("self" | "super")) => self.at.clone(),
            _ => return,
        };
        while let Some(word) = rest.next_if(|word| matches!(*word, "crate" | "self" | "super")) {
            if word == "super" {
                from.pop();
            }
        }
        from.extend(rest.map(str::to_owned));
        self.paths.push(from);
    }

    fn use_tree(&mut self, before: &Names, tree: &UseTree) {
        let with = |name: String| before.iter().cloned().chain([name]).collect::<Names>();
        match tree {
            UseTree::Path(path) => self.use_tree(&with(path.ident.to_string()), &path.tree),
            UseTree::Name(name) => self.name(with(name.ident.to_string())),
            UseTree::Rename(renamed) => self.name(with(renamed.ident.to_string())),
            UseTree::Glob(_) => self.name(before.clone()),
            UseTree::Group(group) => group.items.iter().for_each(|it| self.use_tree(before, it)),
        }
    }
}

fn is_for_tests(attributes: &[Attribute]) -> bool {
    attributes.iter().filter(|it| it.path().is_ident("cfg")).any(|it| {
        let mut found = false;
        let seen = it.parse_nested_meta(|meta| {
            found |= meta.path.is_ident("test");
            Ok(())
        });
        seen.is_ok() && found
    })
}

impl<'ast> Visit<'ast> for Named {
    fn visit_item(&mut self, item: &'ast Item) {
        match item {
            Item::Use(used) if !is_for_tests(&used.attrs) => {
                self.use_tree(&Names::new(), &used.tree);
            }
            Item::Mod(module) if is_for_tests(&module.attrs) => {}
            Item::Fn(function) if is_for_tests(&function.attrs) => {}
            Item::Mod(module) => {
                self.at.push(module.ident.to_string());
                visit::visit_item_mod(self, module);
                self.at.pop();
            }
            other => visit::visit_item(self, other),
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        self.name(path.segments.iter().map(|segment| segment.ident.to_string()).collect());
        visit::visit_path(self, path);
    }
}

impl House {
    fn of(source: &Path) -> House {
        let mut house = House::default();
        let root = read(&source.join("lib.rs")).or_else(|| read(&source.join("main.rs")));
        house.enter_root(&root.expect("a crate's root"));
        for path in files(source) {
            let at = module_of(source, &path);
            let Some(top) = at.first().cloned().filter(|top| house.modules.contains(top)) else {
                continue;
            };
            let mut named = Named { at, paths: Vec::new() };
            named.visit_file(&read(&path).expect("a file that was listed"));
            for path in named.paths {
                let Some(first) = path.first() else { continue };
                let other = house.exports.get(first).unwrap_or(first);
                if *other != top && house.modules.contains(other) {
                    house.uses.entry(top.clone()).or_default().insert(other.clone());
                }
            }
        }
        house
    }

    /// Modules, and what the root exports of them.
    fn enter_root(&mut self, root: &syn::File) {
        let mut named = Named { at: Names::new(), paths: Vec::new() };
        for item in &root.items {
            match item {
                Item::Mod(module) if !is_for_tests(&module.attrs) => {
                    self.modules.insert(module.ident.to_string());
                }
                Item::Use(used) => {
                    let before = vec!["crate".to_owned()];
                    named.use_tree(&before, &used.tree);
                    named.use_tree(&Names::new(), &used.tree);
                }
                _ => {}
            }
        }
        for path in named.paths.iter().filter(|path| path.len() > 1) {
            if let (Some(first), Some(last)) = (path.first(), path.last()) {
                self.exports.insert(last.clone(), first.clone());
            }
        }
        // A module's own name is no export of another one.
        self.exports.retain(|name, _| !self.modules.contains(name));
    }

    /// What a module uses, itself and through others.
    fn reach(&self, from: &str) -> BTreeSet<&str> {
        let mut open = vec![from];
        let mut found = BTreeSet::new();
        while let Some(module) = open.pop() {
            for next in self.uses.get(module).into_iter().flatten() {
                if found.insert(next.as_str()) {
                    open.push(next);
                }
            }
        }
        found
    }

    fn in_circles(&self) -> Vec<&str> {
        let modules = self.modules.iter().map(String::as_str);
        modules.filter(|module| self.reach(module).contains(module)).collect()
    }
}

fn read(path: &Path) -> Option<syn::File> {
    let text = fs::read_to_string(path).ok()?;
    Some(syn::parse_file(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display())))
}

/// The files of modules, without those of tests.
fn files(folder: &Path) -> Vec<PathBuf> {
    let is_of_tests = |path: &Path| path.file_stem().is_some_and(|stem| stem == "tests");
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).expect("a folder of sources") {
        let path = entry.expect("an entry").path();
        if is_of_tests(&path) {
            continue;
        }
        if path.is_dir() {
            found.extend(files(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    found
}

/// The module whose file this is.
fn module_of(source: &Path, file: &Path) -> Names {
    let below = file.strip_prefix(source).expect("a file of the crate").with_extension("");
    below.iter().map(|part| part.to_string_lossy().into_owned()).filter(|it| it != "mod").collect()
}

#[test]
fn no_more_modules_lie_in_circles_than_are_known() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut wrong = Vec::new();
    for (name, known) in IN_CIRCLES {
        let house = House::of(&crates.join(name).join("src"));
        assert!(!house.modules.is_empty() || name == "fuzz", "{name}: no modules were found");
        let found = house.in_circles();
        if found.len() != known {
            wrong.push(format!(
                "{name}: {} modules, not {known}: {}",
                found.len(),
                found.join(" ")
            ));
        }
    }
    assert!(wrong.is_empty(), "modules that use each other in a circle:\n{}", wrong.join("\n"));
}

#[test]
fn a_circle_is_found() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("circle");
    fs::create_dir_all(&folder).expect("a folder");
    let files = [
        ("lib.rs", "mod a; mod b; mod c; mod d; pub use a::{A as Renamed, First}; use b::Second;"),
        ("a.rs", "use super::b::Third; pub struct First; pub struct A;"),
        ("b.rs", "use crate::{c::Fourth}; pub struct Second; pub struct Third;"),
        ("c.rs", "fn c() -> crate::First { todo!() } pub struct Fourth;"),
        ("d.rs", "use crate::Second; #[cfg(test)] mod tests { use crate::d; }"),
    ];
    for (name, text) in files {
        fs::write(folder.join(name), text).expect("a file");
    }
    assert_eq!(House::of(&folder).in_circles(), ["a", "b", "c"]);
}
