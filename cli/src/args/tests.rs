use clap::CommandFactory as _;

use super::*;

#[test]
fn the_grammar_is_sound() {
    Cli::command().debug_assert();
}

fn error(line: &str) -> String {
    let error = Cli::try_parse_from(line.split(' ')).unwrap_err();
    report(&error).unwrap_err()
}

#[test]
fn an_error_is_one_line_that_says_what_to_do() {
    let check = |line: &str, words: &[&str]| {
        let message = error(line);
        assert!(!message.contains('\n'), "{message}");
        for word in words {
            assert!(message.contains(word), "{line}: {message}");
        }
    };
    check("haft run", &["<PROMPT>", "haft run --help"]);
    check("haft swim", &["swim", "haft --help"]);
    check("haft thread list", &["thread", "'threads'"]);
    check("haft run x --engin y", &["--engin", "'--engine'"]);
    check("haft run one two", &["two"]);
    check(
        "haft run x --approve never",
        &["never", "ask, edits, plan, all"],
    );
    check("haft run x --deadline soon", &["soon", "number of seconds"]);
    check("haft run x --deadline -3", &["-3"]);
    check("haft run x --deadline 0", &["more than 0"]);
    check("haft threads show", &["<ID>", "haft threads show --help"]);
    check(
        "haft threads export x --replay --format jsonl",
        &["--replay", "--format"],
    );
    check("haft tools call --batch f name", &["--batch"]);
    check("haft tools call", &["<NAME>", "haft tools call --help"]);
}

#[test]
fn options_stand_where_people_put_them() {
    let check = |line: &str| {
        let cli = Cli::try_parse_from(line.split(' ')).unwrap();
        assert_eq!(cli.place.home, Some(PathBuf::from("h")), "{line}");
    };
    check("haft --home h run x");
    check("haft run x --home h");
    check("haft threads list --home h");
    check("haft threads --home h list");
}

#[test]
fn seconds_may_have_a_fraction() {
    assert_eq!(seconds("1.5"), Ok(Duration::from_millis(1_500)));
    for bad in ["", "x", "0", "-1", "NaN", "inf", "1e300"] {
        assert!(seconds(bad).is_err(), "{bad}");
    }
}
