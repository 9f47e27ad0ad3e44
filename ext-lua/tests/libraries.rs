//! Other people's pure Lua, as Debian packages it: `require`d inside a tool,
//! unchanged. Skipped, with the reason, where the packages can't be had.
#![allow(
    clippy::print_stderr,
    reason = "whoever runs the tests is told of what is skipped"
)]

mod support;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use support::{World, calls, run, tool};

const PACKAGES: &[&str] = &[
    "lua-ansicolors",
    "lua-argparse",
    "lua-basexx",
    "lua-binaryheap",
    "lua-dkjson",
    "lua-inifile",
    "lua-inspect",
    "lua-mediator",
    "lua-messagepack",
    "lua-penlight",
    "lua-say",
];

/// What a tool does with each, and what comes of it.
const USES: &[(&str, &str)] = &[
    (
        "local List = require 'pl.List'\n\
         return tostring(List { 3, 1, 2 }:sort():map(function(x) return x * 2 end))",
        "{2,4,6}",
    ),
    (
        "local class = require 'pl.class'\n\
         local Animal = class() function Animal:_init(name) self.name = name end\n\
         local Cat = class(Animal) function Cat:speak() return self.name .. ' meows' end\n\
         return Cat('Felix'):speak() .. tostring(Cat:class_of(Cat('x')))",
        "Felix meowstrue",
    ),
    (
        "local stringx = require 'pl.stringx'\n\
         return stringx.strip('  x ') .. stringx.replace('abc', 'b', 'z') .. #stringx.split('a b c')",
        "xazc3",
    ),
    (
        "local tablex = require 'pl.tablex'\n\
         return table.concat(tablex.map(function(x) return x + 1 end, { 1, 2 }), ',') .. tostring(tablex.deepcompare({ { 1 } }, { { 1 } }))",
        "2,3true",
    ),
    (
        "local template = require 'pl.template'\n\
         return template.substitute('# for i = 1, 3 do\\n$(i),\\n# end', { _escape = '#' })",
        "1,\n2,\n3,\n",
    ),
    (
        "return require('pl.pretty').write({ 1, a = 2 }, '')",
        "{1,a=2}",
    ),
    (
        "local seq = require 'pl.seq'\n\
         return table.concat(seq.copy(seq.filter(seq.range(1, 6), function(x) return x % 2 == 0 end)), ' ')",
        "2 4 6",
    ),
    (
        "local data = require('pl.OrderedMap')()\n\
         data:set('z', 1):set('a', 2) local keys = {} for k in data:iter() do keys[#keys + 1] = k end\n\
         return table.concat(keys, ',')",
        "z,a",
    ),
    (
        "return require('pl.lexer').lua('x = 1')() .. require('pl.xml').parse('<a><b>c</b></a>'):get_elements_with_name('b')[1][1]",
        "idenc",
    ),
    ("return require('inspect')({ 1, { 2 } })", "{ 1, { 2 } }"),
    (
        "local json = require 'dkjson'\n\
         return json.encode({ 1, { a = true } }) .. json.decode('{\"x\":[7]}').x[1] .. select(3, json.decode('{bad'))",
        "[1,{\"a\":true}]7no valid JSON value at line 1, column 2",
    ),
    (
        "local parser = require('argparse')('prog') parser:argument('input') parser:option('-n --number'):convert(tonumber)\n\
         local args = parser:parse({ 'file', '-n', '3' }) return args.input .. args.number",
        "file3",
    ),
    (
        "return require('basexx').to_base32('hello') .. require('basexx').from_hex('4142')",
        "NBSWY3DPAB",
    ),
    (
        "local heap = require('binaryheap').minUnique() heap:insert(3, 'c') heap:insert(1, 'a')\n\
         return heap:pop() .. heap:size()",
        "a1",
    ),
    (
        "return (require('ansicolors')('%{red}x'):gsub('\\27', 'ESC'))",
        "ESC[0mESC[31mxESC[0m",
    ),
    (
        "local MessagePack = require 'MessagePack'\n\
         local again = MessagePack.unpack(MessagePack.pack({ 1, 'two', { x = 2.5 } })) return again[2] .. again[3].x",
        "two2.5",
    ),
    (
        "local say = require 'say' say:set_namespace('en') say:set('hi', 'hello %s') return say('hi', { 'you' })",
        "hello you",
    ),
    (
        "local m = require('mediator')() local heard m:subscribe({ 'a', 'b' }, function(x) heard = x end)\n\
         m:publish({ 'a', 'b' }, 'news') return heard",
        "news",
    ),
    ("return type(require('inifile').parse)", "function"),
];

#[tokio::test]
async fn pure_lua_libraries_run_unchanged_in_a_tool() {
    let folder = tempfile::tempdir().unwrap();
    if let Err(why) = fetch(folder.path()) {
        eprintln!("skipped: {why}");
        return;
    }
    let mut main = String::new();
    for (index, (body, _)) in USES.iter().enumerate() {
        main.push_str(&tool(&format!("use{index}"), body));
    }
    let world = World::new().file("libraries/init.lua", &main);
    let modules = world.path().join("libraries");
    // The newest Lua that a package is made for comes last.
    for version in ["5.1", "5.2", "5.3", "5.4"] {
        gather(&folder.path().join("usr/share/lua").join(version), &modules);
    }
    let host = world.start();
    for (index, (body, expected)) in USES.iter().enumerate() {
        let name = format!("use{index}");
        let batch = calls(&[(&name, "{}")], Some(Duration::from_secs(20)));
        let outcome = run(&host, batch).await.remove(0);
        assert_eq!(
            (outcome.text.as_str(), outcome.is_error),
            (*expected, false),
            "{body}"
        );
    }
}

/// Gets the packages and unpacks them here, without installing them.
fn fetch(folder: &Path) -> Result<(), String> {
    let quiet = |command: &mut Command| -> Result<(), String> {
        let name = command.get_program().to_string_lossy().into_owned();
        let ran = command
            .current_dir(folder)
            .output()
            .map_err(|e| format!("{name}: {e}"))?;
        match ran.status.success() {
            true => Ok(()),
            false => Err(format!("{name}: {}", String::from_utf8_lossy(&ran.stderr))),
        }
    };
    quiet(Command::new("apt-get").arg("download").args(PACKAGES))?;
    for package in files(folder) {
        quiet(Command::new("dpkg-deb").arg("-x").arg(package).arg("."))?;
    }
    Ok(())
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten();
    entries.filter_map(|e| Some(e.ok()?.path())).collect()
}

/// Copies modules over those of older versions, through the packages' links.
fn gather(from: &Path, to: &Path) {
    for path in files(from) {
        let target = to.join(path.file_name().unwrap());
        if path.is_dir() {
            std::fs::create_dir_all(&target).unwrap();
            gather(&path, &target);
        } else if path.is_file() {
            std::fs::copy(&path, &target).unwrap();
        }
    }
}
