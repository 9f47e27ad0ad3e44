//! A say in policy.

use haft_api::{Decision, ExtensionId, PolicyContributor, PolicyRequest, Result, async_trait};

/// Denies every call that names a secret file.
pub(crate) struct NoSecrets {
    id: ExtensionId,
    secrets: Vec<String>,
}

impl NoSecrets {
    pub(crate) fn new(secrets: Vec<String>) -> Result<Self> {
        let id = ExtensionId::new("no-secrets")?;
        Ok(Self { id, secrets })
    }
}

#[async_trait]
impl PolicyContributor for NoSecrets {
    fn id(&self) -> &ExtensionId {
        &self.id
    }

    async fn review(&self, request: PolicyRequest) -> Result<Decision> {
        let arguments = request.call.arguments.get();
        let named = self
            .secrets
            .iter()
            .find(|secret| arguments.contains(*secret));
        Ok(match named {
            Some(secret) => Decision::Deny {
                reason: format!("{secret} stays where it is"),
            },
            None => Decision::Allow,
        })
    }
}
