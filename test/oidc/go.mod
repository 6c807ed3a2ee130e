module github.com/sandkasten/sandkasten/test/oidc

go 1.26.0

require (
	github.com/sandkasten/sandkasten v0.0.0
	github.com/zitadel/oidc/v3 v3.51.17
)

replace github.com/sandkasten/sandkasten => ../..

replace github.com/sandkasten/sandkasten/sdk/go => ../../sdk/go
