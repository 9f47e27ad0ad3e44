//! TypeScript without its types.

/// The JavaScript that a TypeScript file is without its types. Enums become
/// code, and lines may move.
///
/// # Errors
/// What isn't TypeScript, with its line.
#[cfg(feature = "typescript")]
pub(crate) fn strip(text: &str) -> Result<String, String> {
    // A mistake of the compiler's must not go through the engine's own frames.
    std::panic::catch_unwind(|| transform(text)).unwrap_or_else(|panic| {
        let words = haft_api::panic_message(&*panic);
        Err(format!("the TypeScript compiler failed: {words}"))
    })
}

#[cfg(feature = "typescript")]
fn transform(text: &str) -> Result<String, String> {
    use oxc_allocator::Allocator;
    use oxc_codegen::Codegen;
    use oxc_parser::Parser;
    use oxc_semantic::SemanticBuilder;
    use oxc_span::SourceType;
    use oxc_transformer::{TransformOptions, Transformer};

    let said = |error: &dyn std::fmt::Display, offset: Option<u32>| match offset {
        Some(offset) => {
            let offset = usize::try_from(offset).unwrap_or(text.len());
            let before = text.get(..offset).unwrap_or(text);
            let line = before.matches('\n').count() + 1;
            format!("line {line}: {error}")
        }
        None => error.to_string(),
    };
    let allocator = Allocator::default();
    let parsed = Parser::new(&allocator, text, SourceType::ts()).parse();
    if let Some(error) = parsed.diagnostics.errors().next() {
        return Err(said(
            error,
            error.labels.first().map(|label| label.offset()),
        ));
    }
    let mut program = parsed.program;
    let semantic = SemanticBuilder::new()
        .with_enum_eval(true)
        .build(&program)
        .semantic;
    let options = TransformOptions::default();
    let transformer = Transformer::new(&allocator, std::path::Path::new("skill.ts"), &options);
    let done = transformer.build_with_scoping(semantic.into_scoping(), &mut program);
    match done.diagnostics.errors().next() {
        Some(error) => Err(said(
            error,
            error.labels.first().map(|label| label.offset()),
        )),
        None => Ok(Codegen::new().build(&program).code),
    }
}

#[cfg(not(feature = "typescript"))]
pub(crate) fn strip(_: &str) -> Result<String, String> {
    Err("this program was built without TypeScript (feature `typescript`)".to_owned())
}

#[cfg(all(test, feature = "typescript"))]
mod tests {
    use super::*;

    #[test]
    fn types_go_and_code_stays() {
        let text = "import { type A, b } from './b.ts';\n\
                    interface I { x: number }\n\
                    enum E { X = 2 }\n\
                    const f = <T,>(x: T): T => x as any satisfies unknown;\n\
                    export default { b, e: E.X, f, n: (null as I | null)! };\n";
        let code = strip(text).unwrap();
        for gone in ["interface", ": T", "as any", "satisfies", "enum"] {
            assert!(!code.contains(gone), "{gone} in {code}");
        }
        assert!(
            code.contains("export default") && code.contains("\"./b.ts\""),
            "{code}"
        );
        let error = strip("const a = 1;\nconst b: = 2;\n").unwrap_err();
        assert!(error.contains("line 2"), "{error}");
    }
}
