//! What isn't loaded, and that none of its code has run by then.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use haft_api::ErrorKind;
use haft_plugin::{CheckOptions, LoadOptions, Refusal, RefusalKind, check_file, load, sha256_of};

mod support;

use support::{Build, compile_c, folder};

/// A shared object that leaves a mark when its code runs.
struct Marked {
    path: PathBuf,
    mark: PathBuf,
}

impl Marked {
    /// Each macro is `NAME=VALUE` or `NAME`.
    fn new(name: &str, macros: &[&str]) -> Self {
        let mark = folder().join(format!("{name}-{}.mark", std::process::id()));
        let _ = std::fs::remove_file(&mark);
        let mut arguments = vec![format!("-DMARK=\"{}\"", mark.display())];
        arguments.extend(macros.iter().map(|m| format!("-D{m}")));
        let arguments: Vec<&str> = arguments.iter().map(|a| &**a).collect();
        Self {
            path: compile_c("refused.c", name, &arguments),
            mark,
        }
    }

    /// A file of its own in a folder of its own, to be spoiled.
    fn copy(&self, name: &str) -> PathBuf {
        let own = folder().join(format!("{name}-{}", std::process::id()));
        std::fs::create_dir_all(&own).unwrap();
        std::fs::set_permissions(&own, PermissionsExt::from_mode(0o755)).unwrap();
        let copy = own.join("lib.so");
        let _ = std::fs::remove_file(&copy);
        std::fs::copy(&self.path, &copy).unwrap();
        copy
    }

    fn has_run(&self) -> bool {
        self.mark.exists()
    }
}

impl Drop for Marked {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.mark);
    }
}

fn refused(path: &Path) -> Refusal {
    match load(path, &LoadOptions::default()) {
        Ok(_) => panic!("{} was loaded", path.display()),
        Err(refusal) => refusal,
    }
}

/// Refused by the check alone, too, with the same words.
fn refused_unrun(path: &Path, kind: RefusalKind, wanted: &str, offered: &str) -> Refusal {
    let refusal = refused(path);
    assert_eq!(refusal.kind(), kind, "{refusal}");
    assert!(refusal.wanted().contains(wanted), "{refusal}");
    assert!(refusal.offered().contains(offered), "{refusal}");
    let checked = check_file(path, &CheckOptions::default()).unwrap_err();
    assert_eq!(checked.to_string(), refusal.to_string());
    refusal
}

/// The control: the same constructor does leave its mark once it may run.
#[test]
fn what_passes_every_check_is_started() {
    let marked = Marked::new("passes", &[]);
    let info = check_file(&marked.path, &CheckOptions::default()).unwrap();
    assert_eq!(info.abi, (1, 0));
    assert_eq!(info.api_version, haft_api::API_VERSION);
    assert_eq!(info.build_info, "a fixture");
    assert!(!marked.has_run());
    let refusal = refused(&marked.path);
    assert_eq!(refusal.kind(), RefusalKind::Init);
    assert!(refusal.to_string().contains("not today"), "{refusal}");
    assert!(refusal.to_string().contains("status: 7"), "{refusal}");
    assert!(marked.has_run());
}

#[test]
fn paths_and_kinds_of_file() {
    let marked = Marked::new("paths", &[]);
    let check = |path: &Path, kind, wanted: &str, offered: &str| {
        refused_unrun(path, kind, wanted, offered);
    };
    let (path, missing) = (&marked.path, folder().join("missing.so"));
    let name = Path::new(path.file_name().unwrap());
    check(name, RefusalKind::NotAbsolute, "absolute", "libpaths.so");
    check(
        &missing,
        RefusalKind::Unreadable,
        "readable",
        "No such file",
    );
    check(&folder(), RefusalKind::NotRegular, "regular", "a folder");

    let link = folder().join(format!("link-{}.so", std::process::id()));
    let _ = std::fs::remove_file(&link);
    symlink(path, &link).unwrap();
    let shown = path.canonicalize().unwrap().display().to_string();
    check(&link, RefusalKind::NotRegular, "regular", &shown);
    std::fs::remove_file(&link).unwrap();

    let device = Path::new("/dev/null");
    check(device, RefusalKind::NotRegular, "regular", "a device");
    assert!(!marked.has_run());

    let error = haft_api::Error::from(refused(&missing));
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert_eq!(
        error.context_value("file"),
        Some(&*missing.display().to_string())
    );
}

#[test]
fn what_others_could_have_written() {
    let marked = Marked::new("permissions", &[]);
    let set = |path: &Path, mode| {
        std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
    };
    let copy = marked.copy("permissions");
    let folder = copy.parent().unwrap();
    for mode in [0o666, 0o664, 0o646] {
        set(&copy, mode);
        let offered = format!("{mode:04o}");
        let refusal = refused_unrun(&copy, RefusalKind::Writable, "0644", &offered);
        assert_eq!(refusal.file(), copy);
    }
    set(&copy, 0o644);
    for mode in [0o777, 0o775, 0o1777] {
        set(folder, mode);
        let offered = format!("{mode:04o}");
        let refusal = refused_unrun(&copy, RefusalKind::Writable, "755", &offered);
        assert_eq!(refusal.file(), folder);
    }
    set(folder, 0o755);
    assert!(check_file(&copy, &CheckOptions::default()).is_ok());

    // Only root can give files away.
    if std::os::unix::fs::chown(&copy, Some(12_345), None).is_ok() {
        let refusal = refused_unrun(&copy, RefusalKind::Owner, "user 0", "user 12345");
        assert_eq!(refusal.file(), copy);
        std::os::unix::fs::chown(&copy, Some(0), None).unwrap();
        std::os::unix::fs::chown(folder, Some(12_345), None).unwrap();
        let refusal = refused_unrun(&copy, RefusalKind::Owner, "user 0", "user 12345");
        assert_eq!(refusal.file(), folder);
    }
    assert!(!marked.has_run());
}

#[test]
fn another_file_than_the_one_that_was_named() {
    let marked = Marked::new("digest", &[]);
    let right = sha256_of(&marked.path).unwrap();
    let wrong = "0".repeat(64);
    let options = LoadOptions::default().sha256(&wrong);
    let refusal = load(&marked.path, &options).unwrap_err();
    assert_eq!(refusal.kind(), RefusalKind::Digest);
    assert_eq!((refusal.wanted(), refusal.offered()), (&*wrong, &*right));
    assert!(!marked.has_run());
    let upper = CheckOptions::default().sha256(right.to_uppercase());
    assert!(check_file(&marked.path, &upper).is_ok());
}

#[test]
fn what_is_no_shared_object_of_this_machine() {
    let marked = Marked::new("formats", &[]);
    let copy = marked.copy("formats");
    let original = std::fs::read(&copy).unwrap();
    let spoil = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = original.clone();
        change(&mut bytes);
        std::fs::write(&copy, bytes).unwrap();
    };
    let check = |kind, wanted: &str, offered: &str| {
        refused_unrun(&copy, kind, wanted, offered);
    };
    spoil(&|bytes| bytes.truncate(3));
    check(RefusalKind::Format, "ELF", "a few bytes");
    spoil(&|bytes| *bytes = b"#!/bin/sh\necho this is a script\n".to_vec());
    check(RefusalKind::Format, "ELF", "#!/b");
    // Other systems' shared objects are told by what they are.
    for (magic, offered) in [
        (&b"\xcf\xfa\xed\xfe"[..], "Mach-O"),
        (b"\xca\xfe\xba\xbe", "Mach-O"),
        (b"MZ\x90\x00", "PE file"),
    ] {
        spoil(&|bytes| bytes[..4].copy_from_slice(magic));
        check(RefusalKind::Format, "ELF", offered);
    }
    // Type: relocatable, executable, core.
    for kind in [1, 2, 4] {
        spoil(&|bytes| bytes[16] = kind);
        check(RefusalKind::Format, "shared object", "another type");
    }
    spoil(&|bytes| bytes[18..20].copy_from_slice(&0xf00d_u16.to_ne_bytes()));
    check(RefusalKind::Machine, "machine", &0xf00d.to_string());
    spoil(&|bytes| bytes[4] ^= 3);
    check(RefusalKind::Machine, "64 bits", "32 bits");
    spoil(&|bytes| {
        bytes[5] ^= 3;
        bytes[18..20].reverse();
    });
    check(RefusalKind::Machine, "little endian", "big endian");
    assert!(!marked.has_run());
}

/// The loader maps what isn't there and dies at the first touch; so nothing
/// whose end is missing may get there.
#[test]
fn whatever_was_cut_off_anywhere() {
    let marked = Marked::new("truncated", &[]);
    let copy = marked.copy("truncated");
    let original = std::fs::read(&copy).unwrap();
    let mut kinds = std::collections::BTreeMap::new();
    for length in (0..original.len()).step_by(41).chain([original.len() - 1]) {
        std::fs::write(&copy, &original[..length]).unwrap();
        let refusal = check_file(&copy, &CheckOptions::default()).expect_err("it was cut off");
        *kinds.entry(format!("{:?}", refusal.kind())).or_insert(0) += 1;
    }
    assert_eq!(kinds.len(), 2, "{kinds:?}");
    assert!(kinds["Truncated"] > 100, "{kinds:?}");
    // Blown up to its former size with zeros, as by a broken download. The
    // table at the file's end tells; what is cut within it isn't needed.
    let table = original[40..48]
        .first_chunk()
        .map(|b| u64::from_ne_bytes(*b));
    let table = usize::try_from(table.unwrap()).unwrap();
    for length in (0..table).step_by(997) {
        let mut bytes = original[..length].to_vec();
        bytes.resize(original.len(), 0);
        std::fs::write(&copy, bytes).unwrap();
        let checked = check_file(&copy, &CheckOptions::default());
        assert!(checked.is_err(), "{length} of {}", original.len());
    }
    std::fs::write(&copy, &original[..original.len() / 2]).unwrap();
    assert_eq!(refused(&copy).kind(), RefusalKind::Truncated);
    assert!(!marked.has_run());
}

/// Whatever stands in a file, checking it ends with an answer.
#[test]
fn no_file_is_too_broken_to_be_checked() {
    let marked = Marked::new("broken", &[]);
    let copy = marked.copy("broken");
    let original = std::fs::read(&copy).unwrap();
    // A cheap sequence of numbers, the same at every run.
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut random = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        usize::try_from(state >> 1).unwrap()
    };
    let tables = original.len() - original.len() / 8;
    for _ in 0..2000 {
        let mut bytes = original.clone();
        for _ in 0..=random() % 4 {
            // Where headers and tables are.
            let place = match random() % 3 {
                0 => random() % 64,
                1 => random() % 1024,
                _ => tables + random() % (original.len() - tables),
            };
            bytes[place] = (random() & 0xff) as u8;
        }
        std::fs::write(&copy, bytes).unwrap();
        let _ = check_file(&copy, &CheckOptions::default());
    }
    assert!(!marked.has_run());
}

#[test]
fn what_is_no_plug_in_of_this_abi() {
    let check = |name: &str, macros: &[&str], kind, wanted: &str, offered: &str| {
        let marked = Marked::new(name, macros);
        refused_unrun(&marked.path, kind, wanted, offered);
        assert!(!marked.has_run(), "{name} ran");
    };
    use RefusalKind as Kind;
    let other_name = "SYMBOL=const haft_plugin HAFT_PLUGIN_V9 = PLUGIN";
    let symbol = "HAFT_PLUGIN_V1";
    check(
        "symbol",
        &[other_name],
        Kind::NoSymbol,
        symbol,
        "other symbols",
    );
    // It uses somebody else's, without having one.
    let undefined =
        "SYMBOL=extern int HAFT_PLUGIN_V1; int *probe(void) { return &HAFT_PLUGIN_V1; }";
    check("undefined", &[undefined], Kind::NoSymbol, symbol, "other");
    let bss = "SYMBOL=haft_plugin HAFT_PLUGIN_V1";
    check("bss", &[bss], Kind::NotData, "object", "isn't in the file");

    let magic = "MAGIC={'H', 'A', 'F', 'T', 'P', 'L', 'U', 'X'}";
    check("magic", &[magic], Kind::Magic, "HAFTPLUG", "HAFTPLUX");
    check("major", &["MAJOR=2"], Kind::AbiMajor, "1", "2");
    check(
        "minor",
        &["MINOR=99"],
        Kind::AbiMinor,
        "1.0 or earlier",
        "1.99",
    );
    check("size", &["SIZE=135"], Kind::TableSize, "136", "135");
    check("huge", &["SIZE=4000"], Kind::TableSize, "136", "136");
    check("abort", &["FLAGS=0"], Kind::Abort, "unwinding", "aborting");
    check(
        "api",
        &["API=\"9.1.0\""],
        Kind::ApiVersion,
        "compatible",
        "9.1.0",
    );
    let garbled = "API=\"no version\"";
    check(
        "garbled",
        &[garbled],
        Kind::ApiVersion,
        "compatible",
        "no version",
    );
}

#[test]
fn an_entry_symbol_that_is_code_or_too_small() {
    let check = |name: &str, source: &str, kind, offered: &str| {
        let mark = folder().join(format!("{name}-{}.mark", std::process::id()));
        let file = folder().join(format!("{name}-{}.c", std::process::id()));
        let constructor = format!(
            "#include <stdio.h>\n__attribute__((constructor)) static void mark(void) \
             {{ fclose(fopen(\"{}\", \"w\")); }}\n{source}\n",
            mark.display()
        );
        std::fs::write(&file, constructor).unwrap();
        let path = compile_c(file.to_str().unwrap(), name, &[]);
        refused_unrun(&path, kind, "", offered);
        assert!(!mark.exists(), "{name} ran");
        std::fs::remove_file(&file).unwrap();
    };
    let function = "int HAFT_PLUGIN_V1(void) { return 0; }";
    check("function", function, RefusalKind::NotData, "a function");
    let thread = "__thread long HAFT_PLUGIN_V1[40] = {1};";
    check("thread", thread, RefusalKind::NotData, "a thread's own");
    let small = "int HAFT_PLUGIN_V1 = 1;";
    check("small", small, RefusalKind::TableSize, "4 bytes");
}

#[test]
fn what_the_system_does_not_load() {
    let undefined = "INIT=extern int nobody_has_this(void); return nobody_has_this()";
    let marked = Marked::new("unresolved", &[undefined]);
    assert!(check_file(&marked.path, &CheckOptions::default()).is_ok());
    let refusal = refused(&marked.path);
    assert_eq!(refusal.kind(), RefusalKind::Open);
    assert!(refusal.offered().contains("nobody_has_this"), "{refusal}");
    assert!(!marked.has_run());
}

#[test]
fn what_is_another_thing_in_memory_than_in_the_file() {
    let changing = "SYMBOL=haft_plugin HAFT_PLUGIN_V1 = PLUGIN";
    let own = "CONSTRUCTOR=((haft_plugin *)&HAFT_PLUGIN_V1)->head.build_info[0] = 'X'";
    let marked = Marked::new("changing", &[changing, own]);
    let refusal = refused(&marked.path);
    assert_eq!(refusal.kind(), RefusalKind::Changed);
    assert!(refusal.offered().contains("X fixture"), "{refusal}");
}

#[test]
fn what_does_not_start() {
    let check = |name: &str, init: &str, shown: &str| {
        let marked = Marked::new(name, &[&format!("INIT={init}")]);
        let refusal = refused(&marked.path);
        assert_eq!(refusal.kind(), RefusalKind::Init, "{refusal}");
        assert!(refusal.to_string().contains(shown), "{refusal}");
        haft_api::Error::from(refusal)
    };
    let json = r#"return refuse(error, "{\"kind\":\"busy\",\"message\":\"later\"}")"#;
    check("json", json, "later");
    check("silent", "return 3", "it doesn't say why");
    check("nothing", "return 0", "offers no endpoint");
    let small = "static haft_endpoint e = {.size = 8}; *out = &e; return 0";
    check("tiny", small, "endpoint is too small");
    let gaps = "static haft_endpoint e = {.size = sizeof(e)}; *out = &e; return 0";
    check("gaps", gaps, "endpoint has gaps");
    let odd = "static char c[99]; *out = (const void *)(c + 1); return 0";
    check("odd", odd, "endpoint is misplaced");
    let none = Marked::new(
        "none",
        &["SYMBOL=const haft_plugin HAFT_PLUGIN_V1 = {HEAD, 0}"],
    );
    let refusal = refused(&none.path);
    assert!(refusal.to_string().contains("no function"), "{refusal}");
}

/// A real extension, built so that its panics would end the process.
#[test]
fn an_extension_that_aborts() {
    let path = Build::Abort.path();
    refused_unrun(&path, RefusalKind::Abort, "unwinding", "aborting");
}
