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

/// Makes a list of cases into one test each. (The cases stand in a function of
/// their own, so that what makes them is compiled in examples, too.)
#[doc(hidden)]
#[macro_export]
macro_rules! __declare_tests {
    ([$module:ident, $suite:path, $make:expr] $($name:ident: $checks:literal,)*) => {
        mod $module {
            #[allow(unused_imports)]
            use super::*;

            /// The cases as values, for whoever wants to run them otherwise.
            #[allow(dead_code)]
            pub(crate) fn cases() -> ::std::vec::Vec<$crate::Case> {
                $suite($make)
            }

            $(
                #[doc = $checks]
                #[test]
                fn $name() {
                    $crate::run_case(&cases(), stringify!($name));
                }
            )*
        }
    };
}
