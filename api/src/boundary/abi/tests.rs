use std::mem::{align_of, offset_of, size_of};
use std::path::Path;
use std::process::Command;

use super::*;

/// Every size, offset and number of the ABI, as both languages must see it.
macro_rules! layout {
    ($($rust:ident = $c:ident { $($field:ident)* })*) => {
        /// As Rust sees it.
        fn rust_layout() -> Vec<String> {
            let mut lines = Vec::new();
            $(
                let (size, align) = (size_of::<$rust>(), align_of::<$rust>());
                lines.push(format!("{} {size} {align}", stringify!($c)));
                $(
                    let offset = offset_of!($rust, $field);
                    lines.push(format!("{}.{} {offset}", stringify!($c), stringify!($field)));
                )*
            )*
            lines
        }

        /// A C program that prints it as C sees it.
        fn c_layout() -> String {
            let mut lines = String::new();
            $(
                let c = stringify!($c);
                lines += &format!(
                    "printf(\"{c} %zu %zu\\n\", sizeof({c}), _Alignof({c}));\n"
                );
                $(
                    let field = stringify!($field);
                    lines += &format!(
                        "printf(\"{c}.{field} %zu\\n\", offsetof({c}, {field}));\n"
                    );
                )*
            )*
            lines
        }
    };
}

layout! {
    HaftBytes = haft_bytes { ptr len }
    HaftMessage = haft_message { json blob }
    HaftWakerTable = haft_waker_table { size clone wake drop }
    HaftWaker = haft_waker { data table }
    HaftTaskTable = haft_task_table { size poll drop }
    HaftTask = haft_task { data table }
    HaftEndpoint = haft_endpoint { size data call retain release close log }
    HaftText = haft_text { data write }
    HaftPluginHead = haft_plugin_head {
        magic abi_major abi_minor flags size api_version build_info
    }
    HaftPlugin = haft_plugin { head init }
}

#[test]
#[allow(clippy::print_stderr, reason = "a test that can't run says so")]
fn the_header_says_the_same() {
    if cfg!(miri) {
        eprintln!("skipped: Miri can't run a C compiler");
        return;
    }
    let numbers = [
        ("HAFT_ABI_MAJOR", i64::from(ABI_MAJOR)),
        ("HAFT_ABI_MINOR", i64::from(ABI_MINOR)),
        ("HAFT_FLAG_UNWINDS", i64::from(FLAG_UNWINDS)),
        ("HAFT_PENDING", i64::from(PENDING)),
        ("HAFT_ITEM", i64::from(ITEM)),
        ("HAFT_DONE", i64::from(DONE)),
        ("HAFT_FAILED", i64::from(FAILED)),
        ("HAFT_UNIMPLEMENTED", i64::from(UNIMPLEMENTED)),
        ("HAFT_SHUTDOWN", i64::from(SHUTDOWN)),
    ];
    let mut program = format!(
        "#include \"haft_plugin.h\"\n#include <stdio.h>\n\
         const haft_plugin {ENTRY_SYMBOL} = {{ .head = HAFT_PLUGIN_HEAD(\"me\") }};\n\
         int main(void) {{\n{}",
        c_layout()
    );
    let mut expected = rust_layout();
    for (name, number) in numbers {
        program += &format!("printf(\"{name} %lld\\n\", (long long)({name}));\n");
        expected.push(format!("{name} {number}"));
    }
    // The head that the header makes is the one that Rust makes.
    program += &format!(
        "const unsigned char *head = (const unsigned char *)&{ENTRY_SYMBOL}.head;\n\
         for (size_t i = 0; i < sizeof(haft_plugin_head); i++) printf(\"%02x\", head[i]);\n\
         printf(\"\\n\");\nreturn 0;\n}}\n"
    );
    let printed = compile_and_run(&program);
    let (layout, head) = printed.trim_end().rsplit_once('\n').expect("several lines");
    assert_eq!(layout.lines().collect::<Vec<_>>(), expected);
    let bytes: Vec<u8> = (0..head.len() / 2)
        .map(|index| u8::from_str_radix(&head[2 * index..2 * index + 2], 16).unwrap())
        .collect();
    let head = HaftPluginHead::from_bytes(bytes.first_chunk().unwrap());
    let ours = HaftPluginHead {
        flags: FLAG_UNWINDS,
        ..HaftPluginHead::of_this_crate("me")
    };
    assert_eq!(head, ours);
}

fn compile_and_run(program: &str) -> String {
    let folder = std::env::temp_dir().join(format!("haft-abi-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let (source, binary) = (folder.join("layout.c"), folder.join("layout"));
    std::fs::write(&source, program).unwrap();
    let status = Command::new("cc")
        .args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-I"])
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("include"))
        .arg("-o")
        .args([&binary, &source])
        .status()
        .expect("a C compiler can be run");
    assert!(status.success(), "{program}");
    let output = Command::new(&binary).output().unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
    assert!(output.status.success());
    String::from_utf8(output.stdout).unwrap()
}

/// The numbers that no version may change.
#[test]
fn the_head_has_its_fixed_layout() {
    assert_eq!(HEAD_SIZE, 128);
    let offsets = [
        offset_of!(HaftPluginHead, magic),
        offset_of!(HaftPluginHead, abi_major),
        offset_of!(HaftPluginHead, abi_minor),
        offset_of!(HaftPluginHead, flags),
        offset_of!(HaftPluginHead, size),
        offset_of!(HaftPluginHead, api_version),
        offset_of!(HaftPluginHead, build_info),
        offset_of!(HaftPlugin, init),
    ];
    assert_eq!(offsets, [0, 8, 12, 16, 20, 24, 56, 128]);
    let pointer = size_of::<usize>();
    let sizes = [
        size_of::<HaftBytes>(),
        size_of::<HaftMessage>(),
        size_of::<HaftWakerTable>(),
        size_of::<HaftTaskTable>(),
        size_of::<HaftEndpoint>(),
        size_of::<HaftPlugin>(),
    ];
    let expected = [2, 4, 4, 3, 7].map(|words| words * pointer);
    assert_eq!(sizes[..5], expected);
    assert_eq!(sizes[5], 128 + pointer);
}

#[test]
fn texts_are_padded_cut_and_read_back() {
    let head = HaftPluginHead::of_this_crate("built for this test");
    assert_eq!(head.build_info(), "built for this test");
    assert_eq!(head.api_version(), crate::API_VERSION);
    let long = HaftPluginHead::of_this_crate(&"x".repeat(100));
    assert_eq!(long.build_info(), "x".repeat(71));
    // Without a zero at all, as a careless writer in C may leave it.
    let full = HaftPluginHead {
        api_version: *b"01234567890123456789012345678901",
        ..head
    };
    assert_eq!(full.api_version().len(), 32);
}
