class Kernel:
    """A kernel and its channels. Another one takes its place when it ends."""

    def __init__(self, spec, private, number, python):
        from jupyter_client.manager import KernelManager

        self.dir = os.path.join(private, "k%d" % number)
        os.mkdir(self.dir, 0o700)
        self.log = os.path.join(self.dir, "log")
        self.manager = KernelManager(
            kernel_name=spec, transport="ipc", ip=os.path.join(self.dir, "s"),
            connection_file=os.path.join(self.dir, "connection.json"))
        env = dict(os.environ)
        if env.get("MPLBACKEND", "").lower() == "agg":  # of an image: figures would not be seen
            del env["MPLBACKEND"]
        env.setdefault("PLOTLY_RENDERER", "plotly_mimetype")  # its JSON, and no page that needs scripts of others
        with open(self.log, "wb") as log:
            self.manager.start_kernel(stdout=log, stderr=log, cwd=os.getcwd(), env=env)
        self.client = self.manager.client()
        self.client.start_channels(shell=True, iopub=True, stdin=False, hb=False, control=False)
        self.iopub, self.shell = self.client.iopub_channel.socket, self.client.shell_channel.socket
        self.python = python
        self.ready = self.heard = self.answered = False
        self.asked_at = 0
        self.started = time.monotonic()
        self.peak = 0  # bytes of memory in the run that it is at

    def ended(self):
        process = getattr(self.manager.provisioner, "process", None)
        if process is None:
            return not self.manager.is_alive()
        if process.returncode is None:
            try:
                pid, status, used = os.wait4(process.pid, os.WNOHANG)
            except ChildProcessError:
                return process.poll() is not None
            if pid:
                process.returncode = os.waitstatus_to_exitcode(status)
                self.peak = max(self.peak, used.ru_maxrss << 10)
        return process.returncode is not None

    def begin_peak(self):
        """Has the host's kernel count the most memory anew."""
        self.peak = 0
        try:
            with open("/proc/%d/clear_refs" % self.manager.provisioner.pid, "w") as f:
                f.write("5")
        except (OSError, AttributeError, TypeError):  # it counts from the kernel's start then
            pass

    def look_at_peak(self):
        try:
            with open("/proc/%d/status" % self.manager.provisioner.pid) as f:
                found = re.search(r"VmHWM:\s+(\d+) kB", f.read())
        except (OSError, AttributeError, TypeError):
            return
        if found:
            self.peak = max(self.peak, int(found.group(1)) << 10)

    def code(self):
        return getattr(getattr(self.manager.provisioner, "process", None), "returncode", None)

    def ask(self):
        """Asks whether the kernel is there: until it answers, and until its output is heard."""
        if time.monotonic() - self.asked_at >= 0.25:
            self.asked_at = time.monotonic()
            self.client.kernel_info()

    def receive(self, socket):
        import zmq

        try:
            _, message = self.client.session.recv(socket, zmq.NOBLOCK)
        except ValueError:  # it is not of this kernel, or broken
            return None
        return message

    def interrupt(self):
        try:
            self.manager.interrupt_kernel()
        except Exception:  # it has just ended, which is noticed elsewhere
            pass

    def close(self):
        self.look_at_peak()
        self.client.iopub_channel.stop()
        self.client.shell_channel.stop()
        try:
            self.manager.shutdown_kernel(now=True)
        except Exception:
            pass
        try:
            self.manager.cleanup_resources()
        except Exception:
            pass
        shutil.rmtree(self.dir, ignore_errors=True)
