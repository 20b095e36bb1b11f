module github.com/skiffmq/skiff

go 1.26

require github.com/hashicorp/raft v1.7.3

replace github.com/hashicorp/raft => ./stub/raft
