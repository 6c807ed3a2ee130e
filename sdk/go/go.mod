module github.com/sandkasten/sandkasten/sdk/go

go 1.24
