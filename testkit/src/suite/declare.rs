//! The macros that make a suite's one list of cases into tests or values.

/// Makes a list of cases into a vector: each name is a function of the module
/// `cases`, which takes what `$make` makes.
macro_rules! collect_cases {
    ([$make:ident] $($name:ident: $checks:literal,)*) => {{
        let make = std::sync::Arc::new($make);
        vec![$({
            let make = std::sync::Arc::clone(&make);
            $crate::suite::Case::new(stringify!($name), $checks, move || cases::$name(make()))
        }),*]
    }};
}

pub(crate) use collect_cases;

/// Makes a list of cases into one test each.
#[doc(hidden)]
#[macro_export]
macro_rules! __declare_tests {
    ([$module:ident, $suite:path, $make:expr] $($name:ident: $checks:literal,)*) => {
        mod $module {
            #[allow(unused_imports)]
            use super::*;

            $(
                #[doc = $checks]
                #[test]
                fn $name() {
                    $crate::run_case(&$suite($make), stringify!($name));
                }
            )*
        }
    };
}
