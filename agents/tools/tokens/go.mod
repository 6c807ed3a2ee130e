module github.com/sandkasten/sandkasten/agents/tools/tokens

go 1.26

require (
	github.com/sandkasten/sandkasten/agents/tools v0.1.0
	github.com/tiktoken-go/tokenizer v0.10.0
)

require (
	github.com/dlclark/regexp2/v2 v2.5.1 // indirect
	github.com/sandkasten/sandkasten/sdk/go v0.1.0 // indirect
)

replace (
	github.com/sandkasten/sandkasten/agents/tools => ../
	github.com/sandkasten/sandkasten/sdk/go => ../../../sdk/go
)
