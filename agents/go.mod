module github.com/sandkasten/sandkasten/agents

go 1.26.5

require (
	github.com/google/go-cmp v0.7.0
	github.com/sandkasten/sandkasten/sdk/go v0.1.0
	go.yaml.in/yaml/v3 v3.0.6
)

replace (
	github.com/sandkasten/sandkasten/agents/tools => ./tools
	github.com/sandkasten/sandkasten/sdk/go => ../sdk/go
)
