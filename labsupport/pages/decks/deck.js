// How a deck behaves: all steps in one row, pictures that give way, arrows that stay with the slides.
const deck = document.querySelector('.reveal');

/** Make the pictures of a slide that is too high smaller, to three quarters at most. */
function fit() {
  const slide = Reveal.getCurrentSlide();
  deck.style.removeProperty('--picture');
  const ends = [...slide.children].map(child => child.offsetTop + child.offsetHeight);
  const over = Math.max(...ends) + parseFloat(getComputedStyle(slide).paddingBottom) - slide.clientHeight;
  const picture = Math.max(0, ...[...slide.querySelectorAll('.output img')].map(image => image.offsetHeight));
  if (over > 0 && picture) deck.style.setProperty('--picture', Math.max(3 / 4, 1 - over / picture));
}

// The speaker has the lecture's plan in sight on every slide.
for (const slide of deck.querySelectorAll('section section')) {
  const plan = Object.assign(document.createElement('aside'), { className: 'notes' });
  plan.append(`${deck.dataset.minutes} minutes: ${deck.dataset.plan}.`);
  if (deck.dataset.plan) slide.append(plan);
}

Reveal.on('ready', fit);
Reveal.on('slidechanged', fit);
deck.addEventListener('toggle', fit, true); // an answer was opened
Reveal.initialize({
  width: 1024, height: 768, margin: 0, minScale: .2, maxScale: 4, center: false, navigationMode: 'linear', hash: true,
  scrollActivationWidth: null, slideNumber: 'c/t', transition: 'none', backgroundTransition: 'none',
  totalTime: 60 * deck.dataset.minutes, plugins: [RevealNotes],
});

// A slider reached with Tab takes the arrows; one moved with the mouse leaves them to the slides.
addEventListener('pointerup', ({ target }) => target.matches?.('input[type=range]') && target.blur());
