package seccomp

import "strings"

// allowed is what programs need and what only acts on what they already have.
func allowed() []Rule {
	rules := []Rule{
		{
			Group: "files",
			Calls: strings.Fields(`
				access chdir chmod chown close close_range copy_file_range creat dup dup2 dup3 faccessat faccessat2
				fadvise64 fallocate fchdir fchmod fchmodat fchmodat2 fchown fchownat fcntl fdatasync fgetxattr
				flistxattr flock fremovexattr fsetxattr fstat fstatfs fsync ftruncate futimesat getcwd getdents
				getdents64 getxattr getxattrat lchown lgetxattr link linkat listxattr listxattrat llistxattr lremovexattr
				lseek lsetxattr lstat mkdir mkdirat newfstatat open openat openat2 pread64 preadv preadv2 pwrite64
				pwritev pwritev2 read readahead readlink readlinkat readv removexattr removexattrat rename renameat
				renameat2 rmdir sendfile setxattr setxattrat stat statfs statx symlink symlinkat sync sync_file_range
				syncfs truncate umask unlink unlinkat utime utimensat utimes write writev`),
		},
		{
			Group: "waiting and events",
			Calls: strings.Fields(`
				epoll_create epoll_create1 epoll_ctl epoll_pwait epoll_pwait2 epoll_wait eventfd eventfd2
				inotify_add_watch inotify_init inotify_init1 inotify_rm_watch pipe pipe2 poll ppoll pselect6 select signalfd signalfd4
				timerfd_create timerfd_gettime timerfd_settime`),
		},
		{
			Group: "memory",
			Calls: strings.Fields(`
				brk madvise map_shadow_stack membarrier mlock mlock2 mlockall mprotect
				mremap mseal msync munlock munlockall munmap pkey_alloc pkey_free pkey_mprotect`),
		},
		{
			Group: "processes and threads",
			Calls: strings.Fields(`
				arch_prctl capget capset execve execveat exit exit_group fork futex futex_requeue futex_wait
				futex_waitv futex_wake get_robust_list getcpu getegid geteuid getgid getgroups getpgid getpgrp getpid
				getppid getpriority getresgid getresuid getrlimit getrusage getsid gettid getuid ioprio_get ioprio_set
				kill landlock_add_rule landlock_create_ruleset landlock_restrict_self pause pidfd_open
				pidfd_send_signal restart_syscall rseq rt_sigaction rt_sigpending rt_sigprocmask
				rt_sigqueueinfo rt_sigreturn rt_sigsuspend rt_sigtimedwait rt_tgsigqueueinfo sched_get_priority_max
				sched_get_priority_min sched_getaffinity sched_getattr sched_getparam sched_getscheduler
				sched_rr_get_interval sched_setaffinity sched_setattr sched_setparam sched_setscheduler sched_yield
				seccomp set_robust_list set_tid_address setfsgid setfsuid setgid setgroups setpgid setpriority
				setregid setresgid setresuid setreuid setsid setuid sigaltstack tgkill tkill vfork wait4
				waitid`),
		},
		{
			Group: "time",
			Calls: strings.Fields(`
				alarm clock_getres clock_gettime clock_nanosleep getitimer gettimeofday nanosleep setitimer time
				timer_create timer_delete timer_getoverrun timer_gettime timer_settime times`),
		},
		{
			Group: "sockets that exist already, and queues of the own IPC namespace",
			Calls: strings.Fields(`
				accept accept4 bind connect getpeername getsockname getsockopt listen mq_getsetattr mq_notify mq_open
				mq_timedreceive mq_timedsend mq_unlink msgctl msgget msgrcv msgsnd recvfrom recvmmsg recvmsg semctl
				semget semop semtimedop sendmmsg sendmsg sendto shmat shmctl shmdt shutdown`),
		},
		{Group: "about the system", Calls: strings.Fields(`getrandom sysinfo uname`)},
	}
	for i := range rules {
		rules[i].Then = Allow
	}
	return rules
}

// refused is everything else, each group with its reason.
func refused() []Rule {
	return concat(refusedAdmin(), refusedSurface(), refusedGone())
}

// refusedAdmin are the calls that manage a machine.
func refusedAdmin() []Rule {
	return []Rule{
		refuse("mounts", "Mounting undoes read-only and masked paths.",
			`chroot fsconfig fsmount fsopen fspick mount mount_setattr move_mount open_tree open_tree_attr pivot_root umount2`),
		refuse("joining namespaces", "Nothing inside has a namespace to join.", `setns`),
		refuse("the machine",
			"Restarting, clocks, modules, swap, accounting, quotas and ports belong to the host.",
			`acct adjtimex clock_adjtime clock_settime delete_module finit_module init_module ioperm iopl kexec_file_load
			kexec_load quotactl quotactl_fd reboot setdomainname settimeofday swapoff swapon syslog vhangup`),
		refuse("files by handle", "Opens files outside the root by guessing their number.",
			`name_to_handle_at open_by_handle_at`),
		refuse("whole-filesystem watches", "Sees what others do on a shared filesystem.", `fanotify_init fanotify_mark`),
	}
}

// refusedSurface are the calls whose kernel code has been the way out of
// sandboxes, and which ordinary programs do without.
func refusedSurface() []Rule {
	return []Rule{
		refuse("programs in the kernel", "Code of the caller's choosing in the kernel, and counters that see across processes.",
			`bpf perf_event_open uprobe uretprobe`),
		refuse("faults handled by programs", "Holds the kernel still in the middle of a copy, which turns races into certainties.",
			`userfaultfd`),
		refuse("keyrings", "Not bound to a namespace: shared by all that have the same user id.", `add_key keyctl request_key`),
		refuse("other processes' memory and descriptors", "Only debuggers and checkpointing need it.",
			`kcmp pidfd_getfd process_madvise process_mrelease`),
		refuse("segments", "Sixteen-bit segments have a long record of kernel errors.", `modify_ldt`),
		absent("page cache probing", "Tells what others read of a shared image. Who asks takes all pages for absent.", `cachestat mincore`),
		absent("asynchronous I/O", "Its queues count against one limit of the whole host, `fs.aio-max-nr`. Databases fall back to threads or to "+
			"plain writes, as on a kernel without it.", `io_cancel io_destroy io_getevents io_pgetevents io_setup io_submit`),
		refuse("remapped files", "Emulated by the kernel since 4.0 and used by nothing current.", `remap_file_pages`),
		absent("io_uring", "A second way to make most calls, which a filter does not see. Users of it fall back.",
			`io_uring_enter io_uring_register io_uring_setup`),
		absent("memory policy", "Moves the pages of others and of shared files. libnuma takes ENOSYS as one node.",
			`get_mempolicy mbind migrate_pages move_pages set_mempolicy set_mempolicy_home_node`),
		absent("new and rarely used", "Wider than what it replaces; programs that know it fall back.",
			`file_getattr file_setattr listmount listns lsm_get_self_attr lsm_list_modules lsm_set_self_attr memfd_secret
			rseq_slice_yield statmount`),
	}
}

// refusedGone are numbers that current kernels answer with ENOSYS as well, or
// that only old programs make.
func refusedGone() []Rule {
	return []Rule{absent("obsolete", "Gone from current kernels, or never part of them.",
		`_sysctl afs_syscall create_module epoll_ctl_old epoll_wait_old get_kernel_syms get_thread_area getpmsg
		lookup_dcookie nfsservctl putpmsg query_module security set_thread_area sysfs tuxcall uselib ustat vserver`)}
}

func refuse(group, why, calls string) Rule {
	return Rule{Group: group, Why: why, Then: notPermitted, Calls: strings.Fields(calls)}
}

func absent(group, why, calls string) Rule {
	return Rule{Group: group, Why: why, Then: notImplemented, Calls: strings.Fields(calls)}
}
