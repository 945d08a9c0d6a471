/* Search in pages that are opened as files. Browsers run no workers there, so that the script of the search runs in a
   hidden frame, and messages go to and fro as they would with a worker. The theme's offline plugin asks for such a
   script by this name, and its search looks for the name IFrameWorker. */
if (location.protocol === "file:") {
  window.IFrameWorker = class extends EventTarget {
    constructor(script) {
      super();
      this.waiting = [];
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      this.frame.worker = this;
      this.frame.onload = () => this.start();
      const reply = "postMessage = (data) => frameElement.worker.receive(data)";
      this.frame.srcdoc = `<script>${reply}</script><script src="${new URL(script, location)}"></script>`;
      document.body.append(this.frame);
    }

    start() {
      this.ready = true;
      this.waiting.splice(0).forEach((data) => this.postMessage(data));
    }

    postMessage(data) {
      if (!this.ready) {
        this.waiting.push(data);
        return;
      }
      this.frame.contentWindow.dispatchEvent(new MessageEvent("message", { data }));
    }

    receive(data) {
      this.dispatchEvent(new MessageEvent("message", { data }));
    }
  };
  window.Worker = window.IFrameWorker;
}
