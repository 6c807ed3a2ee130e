module github.com/sandkasten/sandkasten/agents/tools

go 1.25

require github.com/sandkasten/sandkasten/sdk/go v0.1.0

replace github.com/sandkasten/sandkasten/sdk/go => ../../sdk/go
