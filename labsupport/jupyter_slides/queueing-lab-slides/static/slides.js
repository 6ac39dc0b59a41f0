// Opens the lesson as slides and runs it; keys go through all its steps, and pictures fit the screen.
// JupyterLab loads this as it loads a prebuilt extension, of which it has the form; nothing has to be built.
(() => {
  const here = document.currentScript.src;
  const SLIDER = '.noUi-handle';

  function addStyle() {
    const link = document.createElement('link');
    link.rel = 'stylesheet';
    link.href = new URL('slides.css', here).href;
    document.head.append(link);
  }

  /** The panel of the lesson, once JupyterLab has opened it. */
  async function opened(app) {
    await app.restored;
    for (;;) {
      const panel = app.shell.currentWidget;
      if (panel?.content?.activeCell && panel.sessionContext) {
        await panel.context.ready;
        return panel;
      }
      await new Promise(resolve => setTimeout(resolve, 50));
    }
  }

  /** Show the next (+1) or previous (-1) step. The deck's own commands forget, going back, what stood below a slide. */
  function step(notebook, by) {
    const shown = n => ['slide', 'subslide', 'fragment'].includes(
      notebook.widgets[n].model.getMetadata('slideshow')?.slide_type);
    let n = notebook.activeCellIndex + by;
    while (notebook.widgets[n] && !shown(n)) n += by;
    if (notebook.widgets[n]) notebook.activeCellIndex = n;
  }

  /** Make the pictures of a slide that is higher than the screen smaller, to two thirds at most. */
  function fit(notebook) {
    notebook.node.style.removeProperty('--qlab-picture-width');
    const picture = notebook.node.querySelector('.jp-deck-mod-onscreen .qlab-explorer .widget-gridbox');
    const scroller = notebook.node.querySelector('.jp-WindowedPanel-outer');
    const over = scroller.scrollHeight - scroller.clientHeight;
    if (!picture?.offsetHeight || over <= 0) return;
    const part = Math.max(2 / 3, 1 - over / picture.offsetHeight);
    notebook.node.style.setProperty('--qlab-picture-width', `${Math.floor(part * picture.offsetWidth)}px`);
  }

  async function start(app) {
    addStyle();
    const panel = await opened(app);
    const notebook = panel.content;
    await app.commands.execute('deck:start');
    notebook.activeCellIndex = 0;
    notebook.activate();

    // A wireless presenter sends Page Down and Page Up.
    app.commands.addCommand('queueing-lab:step', { label: 'Next or previous step', execute: ({ by }) => step(notebook, by) });
    for (const [by, keys] of [[1, ['ArrowRight', 'PageDown', 'Space']], [-1, ['ArrowLeft', 'PageUp', 'Shift Space']]]) {
      for (const key of keys) {
        for (const selector of ['.jp-Notebook.jp-mod-commandMode:not(.jp-mod-readWrite) :focus', '.jp-Deck-Remote']) {
          app.commands.addKeyBinding({
            command: 'queueing-lab:step', args: { by }, keys: [key],
            selector: `body[data-jp-deck-mode] ${selector}`,
          });
        }
      }
    }

    // A slider reached with Tab takes the arrows; after the mouse they go through the steps.
    document.addEventListener('focusin', ({ target }) => {
      if (target.matches?.(SLIDER)) target.setAttribute('data-lm-suppress-shortcuts', 'true');
    });
    document.addEventListener('pointerup', () => setTimeout(() => {
      if (document.activeElement?.matches(`${SLIDER}, .jp-Deck button`)) notebook.activeCell.node.focus();
    }), { capture: true });

    const later = () => requestAnimationFrame(() => fit(notebook));
    notebook.activeCellChanged.connect(later);
    addEventListener('resize', later);

    await panel.sessionContext.ready;
    const shown = notebook.activeCellIndex;
    const run = app.commands.execute('notebook:run-all-cells');
    notebook.activeCellIndex = shown; // running all goes to the last cell
    await run;
    later();
  }

  const plugin = { id: 'queueing-lab-slides:plugin', autoStart: true, activate: app => void start(app) };
  window._JUPYTERLAB ??= {};
  window._JUPYTERLAB['queueing-lab-slides'] = { init: () => {}, get: async () => () => ({ __esModule: true, default: plugin }) };
})();
